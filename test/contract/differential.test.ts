import assert from "node:assert/strict";
import { join } from "node:path";
import {
  type Answer,
  type AttemptEntry,
  type Backend,
  type Begin,
  decide,
  type LedgerRecord,
  type Operation,
  type Settle,
  type Settlement,
} from "onceflow/store";
import { afterAll, beforeAll, describe, inject, test } from "vitest";
import { abandonedAt } from "../../src/core/ledger/record.js";
import { openDynamo } from "../../src/stores/dynamodb/index.js";
import { openMongo } from "../../src/stores/mongodb/index.js";
import { postgresBackend } from "../../src/stores/postgres/backend.js";
import { openRedis } from "../../src/stores/redis/index.js";
import { sqliteBackend } from "../../src/stores/sqlite/backend.js";
import { membersOf } from "../../src/testing/contract/ledger/operations.js";
import { effort } from "../kit/effort.js";
import { fc, seedOf } from "../kit/properties.js";
import { temporaryFolder } from "../kit/temporary-folder.js";
import { settled } from "../kit/until.js";
import { freshTable } from "../servers/dynamodb/tables.js";
import { type FreshDatabase, freshDatabase } from "../servers/postgres/databases.js";

/**
 * Applies random histories to a store, and to decide() on a Map. Each flush returns the store's time of its decision, so the
 * model decides at the same instant: answers, records and attempt logs must be equal to the millisecond. Durations are zero
 * or a century, because a purge does not return its time.
 */
const centuryMs = 100 * 366 * 24 * 3600 * 1000;
const durationMs = fc.constantFrom(0, centuryMs);
const effect = fc.constantFrom("idempotent", "keyed", "reconcile", "atMostOnce");

/** The owner that an operation names: mostly the owner of the record, sometimes another one. */
const who = fc.oneof({ weight: 3, arbitrary: fc.constant("present") }, { weight: 2, arbitrary: fc.constantFrom("a", "b") });
const attempt = fc.oneof({ weight: 4, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.constantFrom(-1, 1) });

const resolution = fc.oneof(
  fc.record({ state: fc.constant("completed"), outcome: fc.constantFrom(null, '"result"', '{"a":"\\u0000 \\"\\\\ ü😀"}', "null", "{}") }),
  fc.record({ state: fc.constant("failed"), outcome: fc.constantFrom('{"name":"Error","message":"x"}') }),
  fc.record({ state: fc.constant("free"), forget: fc.boolean() }),
) as fc.Arbitrary<Exclude<Settlement, { state: "unknown" }>>;
const settlement: fc.Arbitrary<Settlement> = fc.oneof(
  { weight: 3, arbitrary: resolution },
  { weight: 1, arbitrary: fc.constant({ state: "unknown" as const }) },
);
const note = fc.constantFrom(null, "TypeError", 'a "note", {with} \\ all');

const progress = fc.constantFrom(null, "first", '{"second":"\\u0000 ü😀"}');

const asked = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      verb: fc.constant("begin" as const),
      owner: who,
      fingerprint: fc.constantFrom(null, null, "x", "y"),
      effect,
      leaseMs: durationMs,
      retentionMs: fc.constantFrom(0, 0, centuryMs, null),
      horizonMs: durationMs,
      reconcileAfterMs: durationMs,
      over: fc.option(attempt),
      progress,
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      verb: fc.constant("settle" as const),
      owner: who,
      attempt,
      to: settlement,
      note,
      within: fc.constantFrom(true, false, false),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record(
      { verb: fc.constant("renew" as const), owner: who, attempt, leaseMs: durationMs, progress: fc.constantFrom("later", "latest") },
      { requiredKeys: ["verb", "owner", "attempt", "leaseMs"] },
    ),
  },
  {
    weight: 2,
    arbitrary: fc.record(
      { verb: fc.constant("resolve" as const), owner: who, attempt, to: resolution, note, erase: fc.constant(true as const) },
      { requiredKeys: ["verb", "owner", "attempt", "to", "note"] },
    ),
  },
);
type Asked = typeof asked extends fc.Arbitrary<infer A> ? A : never;

const keys = ["one", "two", 'th"r,e\\e'] as const;
const flushed = fc.uniqueArray(fc.record({ key: fc.constantFrom(...keys), asked }), { selector: ({ key }) => key, minLength: 1 });
const step = fc.oneof(
  { weight: 15, arbitrary: fc.record({ flush: flushed }) },
  { weight: 1, arbitrary: fc.record({ purgeBefore: fc.constantFrom(undefined, 0, 8e15) }) },
);
const history = fc.array(step, { minLength: 12, maxLength: 20, size: "max" });

/** For a busy machine; an idle one needs a tenth of it. */
const compareMsMax = 900_000;

let histories = 0;

class Model {
  readonly scope = `history ${++histories}`;
  readonly records = new Map<string, LedgerRecord>();
  readonly attempts = new Map<string, AttemptEntry[]>();

  /** An owner belongs to one key, as in every begin. */
  operation(key: string, asked: Asked): Operation {
    const record = this.records.get(key);
    const owner = asked.owner === "present" && record ? record.owner : `${key} ${asked.owner}`;
    const attempt = (offset: number) => Math.max(0, (record?.attempt ?? 1) + offset);
    const id = { scope: this.scope, key, owner };
    if (asked.verb === "begin") return { ...asked, ...id, over: asked.over === null ? null : attempt(asked.over) } as Begin;
    if (asked.verb !== "settle") return { ...asked, ...id, attempt: attempt(asked.attempt) } as Operation;
    const { within: _, ...settle } = asked;
    return { ...settle, ...id, attempt: attempt(asked.attempt) };
  }

  apply(operation: Operation, now: number): Answer {
    const { key } = operation;
    const { answer, next, past } = decide(this.records.get(key), operation, now);
    if (next) this.records.set(key, next);
    if (past) this.attempts.set(key, [...(this.attempts.get(key) ?? []), past]);
    return answer;
  }

  /** Removes everything that has a duration of zero, and returns the number of affected records. */
  purge(before: number | undefined): number {
    if (before === 0) return 0;
    let touched = 0;
    for (const [key, record] of this.records) {
      const { settledAt, expiresAt, goneAt, outcome } = record;
      const abandoned = abandonedAt(record);
      if ((goneAt !== null && goneAt === settledAt) || (abandoned !== null && abandoned < Date.now() + centuryMs / 2)) {
        this.records.delete(key);
        this.attempts.delete(key);
        touched += 1;
      } else if (expiresAt !== null && expiresAt === settledAt && outcome !== null) {
        this.records.set(key, { ...record, outcome: null, rev: record.rev + 1 });
        touched += 1;
      }
    }
    return touched;
  }
}

const plain = (answer: Answer): Answer =>
  "record" in answer && answer.record ? ({ ...answer, record: membersOf(answer.record) } as Answer) : answer;

async function flush(backend: Backend, model: Model, operations: readonly Operation[]): Promise<void> {
  const verdicts = await backend.flush(operations);
  for (const [i, operation] of operations.entries()) {
    const verdict = verdicts[i];
    assert.ok(!(verdict instanceof Error), String(verdict));
    assert.ok(verdict !== undefined && verdict !== "again", `no other caller is active, but ${operation.verb} was answered with "again"`);
    // A settle need not return its time: the record has it.
    const settledAt = operation.verb === "settle" ? (await backend.read(operation))?.record.settledAt : undefined;
    const now = settledAt ?? verdict.now;
    assert.deepEqual(plain(verdict.answer), model.apply(operation, now));
  }
}

/** The settle within a transaction does not return its time: the record has it. */
async function settleWithin(backend: Backend, model: Model, settle: Settle): Promise<void> {
  assert.ok(backend.transact && backend.settleWithin);
  const answer = await backend.transact(async (tx) => (await backend.settleWithin?.(tx, settle)) as Answer);
  const reading = await backend.read(settle);
  assert.deepEqual(plain(answer), model.apply(settle, reading?.record.settledAt ?? 0));
}

async function expectEqual(backend: Backend, model: Model): Promise<void> {
  const listed = await backend.list({ scope: model.scope, limit: 100 });
  const found = new Map(listed.map(({ record }) => [record.key, membersOf(record)]));
  assert.deepEqual(found, new Map([...model.records].sort(([a], [b]) => (a < b ? -1 : 1))));
}

async function play(backend: Backend, steps: typeof history extends fc.Arbitrary<infer H> ? H : never): Promise<void> {
  const model = new Model();
  // Removes what earlier histories left, so that every later purge counts only records of this history.
  while ((await backend.purge({ limit: 1000 })) > 0);
  for (const [i, step] of steps.entries()) {
    if ("purgeBefore" in step) {
      const before = step.purgeBefore === undefined ? {} : { before: step.purgeBefore };
      assert.equal(await backend.purge({ ...before, limit: 1000 }), model.purge(step.purgeBefore));
    } else {
      const sorted = step.flush.toSorted((a, b) => (a.key < b.key ? -1 : 1));
      const within = (asked: Asked) => asked.verb === "settle" && asked.within && backend.transact !== undefined;
      const together = sorted.filter(({ asked }) => !within(asked));
      if (together.length > 0)
        await flush(
          backend,
          model,
          together.map(({ key, asked }) => model.operation(key, asked)),
        );
      for (const { key, asked } of sorted) {
        if (within(asked)) await settleWithin(backend, model, model.operation(key, asked) as Settle);
      }
    }
    // Not after every step, because a comparison takes as long as a step; a difference is found a little later.
    if (i % 3 === 2 || i === steps.length - 1) await expectEqual(backend, model);
  }
  for (const key of keys) {
    const log = await backend.attempts({ scope: model.scope, key, afterAttempt: 0, limit: 1000 });
    assert.deepEqual(
      log.map((entry) => ({ ...entry })),
      model.attempts.get(key) ?? [],
    );
  }
}

async function compare(backend: Backend, numRuns: number, part = 1): Promise<void> {
  try {
    await fc.assert(
      fc.asyncProperty(history, async (steps) => {
        // The histories on SQLite never wait for I/O: without this turn, connections of the other stores would time out beside them.
        await settled(1);
        await play(backend, steps);
      }),
      { numRuns, seed: seedOf(part) },
    );
  } finally {
    await backend.close();
  }
}

describe.concurrent("SQLite decides as decide() does", { timeout: compareMsMax }, () => {
  const histories = effort({ quick: 10, full: 60 });
  test.for([1, 2])(`on ${histories} random histories, part %i`, async (part, { onTestFinished }) => {
    const folder = temporaryFolder(onTestFinished);
    await compare(await sqliteBackend({ path: join(folder, "ledger.db") }), histories, part);
  });
});

describe.concurrent("PostgreSQL decides in SQL as decide() does", { timeout: compareMsMax }, () => {
  const server = inject("postgres");
  let database: FreshDatabase | undefined;

  beforeAll(async () => {
    if (server.ok) database = await freshDatabase(server.url);
  });
  afterAll(() => database?.drop());

  const histories = effort({ quick: 10, full: 80 });
  test.for([1, 2, 3, 4])(`on ${histories} random histories, part %i`, async (part, { skip }) => {
    if (database === undefined) return skip(server.ok ? "no database" : server.reason);
    const url = new URL(database.url);
    // This test crashes no server, so commits need not wait for the disk.
    url.searchParams.set("options", "-c synchronous_commit=off");
    await compare(await postgresBackend({ url: url.href, schema: `part_${part}` }), histories, part);
  });
});

describe.concurrent("MongoDB decides in pipelines as decide() does (an emulator, or the real server that is given)", {
  timeout: compareMsMax,
}, () => {
  const server = inject("mongodb");

  const histories = effort({ quick: 5, full: 20 });
  test.for([1, 2])(`on ${histories} random histories, part %i`, async (part, { skip }) => {
    if (!server.ok) return skip(server.reason);
    const prefix = `differential_${process.pid}_${part}`;
    await compare(await openMongo({ url: `${server.url}${server.url.includes("?") ? "&" : "?"}prefix=${prefix}` }), histories, part);
  });
});

describe.concurrent("Redis decides in Lua as decide() does", { timeout: compareMsMax }, () => {
  const server = inject("redis");
  const histories = effort({ quick: 10, full: 80 });
  test.for([1, 2])(`on ${histories} random histories, part %i`, async (part, { skip }) => {
    if (!server.ok) return skip(server.reason);
    await compare(await openRedis({ url: `${server.url}?prefix=differential-${process.pid}-${part}` }), histories, part);
  });
});

describe.concurrent("DynamoDB decides in conditions as decide() does", { timeout: compareMsMax }, () => {
  const server = inject("dynamodb");
  const histories = effort({ quick: 5, full: 15 });
  test(`on ${histories} random histories`, async ({ skip, onTestFinished }) => {
    if (!server.ok) return skip(server.reason);
    const table = freshTable(server.url);
    onTestFinished(() => table.drop());
    await compare(await openDynamo({ url: table.url }), histories);
  });
});
