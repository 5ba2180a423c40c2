import type { Store } from "onceflow";
import { type ContractTarget, memoryTarget, mongoTarget, postgresTarget, Random, sqliteTarget } from "onceflow/testing";
import { describe, expect, inject, test } from "vitest";
import type { Chunk } from "../../src/core/runs/chunk.js";
import type { Entry, RunAnswer, RunOperation } from "../../src/core/runs/operation.js";
import { freshDatabase } from "../servers/postgres/databases.js";

const operationsPerHistory = 30;
const streams = ["default", "log"];
const writers = ["run", "a#0", "b#0"];

/** Everything that the owners of one run may send, including late operations: attempts out of order, repeated chunks, ends, voids. */
class History {
  readonly #random: Random;
  #seq = 1;
  #epoch = 1;

  constructor(seed: number) {
    this.#random = new Random(seed);
  }

  first(): RunOperation {
    const first = { owner: "owner", leaseMs: 600_000, entry: this.#entry() };
    const rest = { workflow: "work", input: "1", fingerprint: null, parent: null, retentionMs: null };
    return { verb: "start", id: "run", creator: "me", ...rest, first };
  }

  next(): RunOperation {
    const random = this.#random;
    const epoch = random.chance(0.1) ? this.#epoch + random.pick([-1, 1]) : this.#epoch;
    const creator = random.chance(0.05) ? "another run" : "me";
    if (random.chance(0.7)) return { verb: "write", id: "run", creator, epoch, chunks: this.#chunks(random.between(1, 6)) };
    this.#seq += 1;
    return { verb: "append", id: "run", creator: "me", epoch: this.#epoch, seq: this.#seq, entry: this.#entry() };
  }

  #entry(): Entry {
    const random = this.#random;
    const plain = { events: `[${this.#seq}]`, consumed: null, hooks: [], children: [], then: { kind: "hold" } } as const;
    const voids = random.chance(0.3) ? [{ writer: random.pick(writers), attempt: random.between(1, 4) }] : undefined;
    const ends = random.chance(0.08) ? [this.#end()] : [];
    const chunks = random.chance(0.5) ? [...this.#chunks(random.between(1, 3)), ...ends] : undefined;
    return { ...plain, ...(voids ? { voids } : {}), ...(chunks ? { chunks } : {}) };
  }

  #chunks(length: number): Chunk[] {
    const random = this.#random;
    return Array.from({ length }, (): Chunk => {
      const name = { stream: random.pick(streams), writer: random.pick(writers), n: random.between(0, 9), attempt: random.between(1, 4) };
      const bytes = random.chance(0.3);
      const data = bytes ? new Uint8Array(random.between(0, 5)).fill(random.between(0, 255)) : JSON.stringify(random.between(0, 999));
      return { ...name, kind: bytes ? "bytes" : "value", data };
    });
  }

  #end(): Chunk {
    const random = this.#random;
    const name = { stream: random.pick(streams), writer: random.pick(writers), n: -1, attempt: 1 };
    return random.chance(0.5) ? { ...name, kind: "end", data: null } : { ...name, kind: "error", data: '{"name":"Error"}' };
  }
}

/** The answer without the store's time. */
const plain = ({ kind, ...rest }: RunAnswer) => ({ kind, ...("closed" in rest ? { closed: [...rest.closed].sort() } : {}) });

async function contentsOf(store: Store): Promise<unknown> {
  const seen: unknown[] = [];
  for (const stream of streams) {
    const chunks = await store.runs.chunks({ run: "run", stream, from: 0, limit: 1000, bytesMax: 1e9 });
    const rows = chunks.map(({ index, kind, data }) => [index, kind, data instanceof Uint8Array ? [...data] : data]);
    seen.push(stream, await store.runs.tail("run", stream), rows);
  }
  return seen;
}

async function compare(target: ContractTarget, histories: number): Promise<void> {
  for (let seed = 1; seed <= histories; seed++) {
    const [model, ledger] = [await memoryTarget({ time: "real" }).create(), await target.create()];
    const [expected, found] = [await model.open({ purgeEveryMs: 0 }), await ledger.open({ purgeEveryMs: 0 })];
    try {
      const history = new History(seed);
      const asked = [history.first(), ...Array.from({ length: operationsPerHistory }, () => history.next())];
      for (const [i, run] of asked.entries()) {
        const answers = [plain(await found.commit({ run })), plain(await expected.commit({ run }))];
        expect(answers[0], `seed ${seed}, operation ${i}: ${JSON.stringify(run)}`).toEqual(answers[1]);
        if (i % 6 !== 0 && i !== operationsPerHistory) continue;
        expect(await contentsOf(found), `seed ${seed}, operation ${i}: ${JSON.stringify(run)}`).toEqual(await contentsOf(expected));
      }
    } finally {
      await Promise.all([expected.close(), found.close()]);
      await ledger.remove();
    }
  }
}

describe.concurrent(`every store handles chunks as the memory store does, in random histories of ${operationsPerHistory} operations`, () => {
  test("SQLite", async () => await compare(sqliteTarget(), 6));

  const postgres = inject("postgres");
  test.skipIf(!postgres.ok)("PostgreSQL", async () => {
    const database = await freshDatabase(postgres.ok ? postgres.url : "");
    const target = await postgresTarget({ url: database.url });
    try {
      await compare(target, 6);
    } finally {
      await target.close();
      await database.drop();
    }
  });

  const mongodb = inject("mongodb");
  test.skipIf(!mongodb.ok)("MongoDB", async () => {
    const target = await mongoTarget({ url: mongodb.ok ? mongodb.url : "" });
    try {
      await compare(target, 3);
    } finally {
      await target.close();
    }
  });
});
