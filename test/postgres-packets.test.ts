import assert from "node:assert/strict";
import fc from "fast-check";
import pg from "pg";
import { afterAll, beforeAll, describe, inject, test } from "vitest";
import type { PacketRecord } from "../dist/core/packet.js";
import type { PacketBackend, PacketClaims } from "../dist/core/packet-operation.js";
import type { Backend } from "../dist/core/store.js";
import { createMemoryLedger, memoryBackend } from "../dist/stores/memory/memory-ledger.js";
import { openPostgres } from "../dist/stores/postgres/open.js";
import { history, Numbers, nth, queryOf, type Step } from "./packet-histories.js";
import { type FreshDatabase, freshDatabase } from "./servers/free-database.js";

const server = inject("postgres");
let database: FreshDatabase;
let direct: pg.Client;

beforeAll(async () => {
  if (!server.ok) return;
  database = await freshDatabase(server.url);
  direct = new pg.Client(database.url);
  await direct.connect();
});
afterAll(async () => {
  await direct?.end();
  await database?.drop();
});

/**
 * Random histories on PostgreSQL and on the memory store, which says what each verb means. PostgreSQL gets a clock of
 * ours, so that answers, packets, executions, notes and keys have to be equal to the millisecond.
 */
describe.skipIf(!server.ok)("postgres does with packets what memory does", { timeout: 560_000 }, () => {
  let now = 1_000_000;
  let backend: Backend;
  let packets: PacketBackend;

  beforeAll(async () => {
    await direct.query(`CREATE SCHEMA ours; CREATE SEQUENCE ours.clock MINVALUE 0;
      CREATE FUNCTION ours.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
        $$ SELECT timestamptz 'epoch' + last_value * interval '1 millisecond' FROM ours.clock $$`);
    const url = new URL(database.url);
    url.searchParams.set("options", "-c search_path=ours,pg_catalog");
    backend = await openPostgres({ url: url.href, schema: "differential" });
    assert.ok(backend.packets);
    packets = backend.packets;
  });
  afterAll(() => backend.close());

  async function setClock(at: number): Promise<void> {
    now = at;
    await direct.query("SELECT setval('ours.clock', $1)", [at]);
  }

  const byNumber = (a: { no: number }, b: { no: number }) => a.no - b.no;
  const sorted = ({ claimed, closed, ended, resting, ...rest }: PacketClaims) => ({
    ...rest,
    claimed: [...claimed].sort(byNumber),
    closed: [...closed].sort(byNumber),
    ended: [...ended].sort(byNumber),
    resting: [...resting].sort(),
  });

  async function play(steps: readonly Step[]): Promise<void> {
    await direct.query(`TRUNCATE differential.packets, differential.executions, differential.notes, differential.flows, differential.workers,
      differential.records, differential.attempts RESTART IDENTITY`);
    await setClock(1_000_000);
    const ledger = createMemoryLedger(() => now);
    const model = memoryBackend(ledger).packets as PacketBackend;
    const { table } = ledger.packets;
    const numbers = new Numbers();
    const both = async <T>(verb: (of: PacketBackend) => Promise<T>, seen: (answer: T) => unknown = (answer) => answer) => {
      const theirs = await verb(packets);
      assert.deepEqual(seen(theirs), seen(await verb(model)));
    };
    const all = (): PacketRecord[] => [...table.packets.values()];
    const worker = (n: number) => nth([...table.workers.keys()], n) ?? 99;
    for (const _ of [1, 2]) await both((of) => of.join({ leaseMs: 10_000 }));
    for (const [i, one] of steps.entries()) {
      await setClock(now + 1);
      if ("pass" in one) await setClock(now + one.pass);
      else if ("purge" in one) await both((of) => of.purge(one.purge));
      else if ("renew" in one) await both((of) => of.renew(worker(one.renew), 10_000));
      else if ("leave" in one) await both((of) => of.leave(worker(one.leave)));
      else if ("join" in one) await both((of) => of.join({ leaseMs: one.join }));
      else if ("state" in one) await both((of) => of.setFlowState(one.flow, one.state));
      else if ("claim" in one) await both((of) => of.claim(queryOf(worker(one.claim.worker), one.claim)), sorted);
      else if ("reinject" in one || "discard" in one) {
        const [n, verb] = "reinject" in one ? [one.reinject, "reinject" as const] : [one.discard, "discard" as const];
        const dead = all().filter(({ state }) => state === "dead");
        const no = nth(n % 5 === 0 ? all() : dead, n)?.no ?? 1;
        await both((of) => of[verb](no));
      } else {
        const there = {
          owned: all().filter(({ owner }) => owner !== null),
          executions: [...table.executions.keys()],
          workers: [...table.workers.keys()],
        };
        const operations = one.flush.map((asked) => numbers.operation(asked, there)).filter((operation) => operation !== undefined);
        const rowOf = (operation: (typeof operations)[number]) =>
          operation.verb === "settlePacket" ? operation.no : (operation.execution?.no ?? operation.packets[0]?.no);
        // As group commit does it: one operation about a packet.
        const alone = operations.filter((operation, i) => operations.findIndex((other) => rowOf(other) === rowOf(operation)) === i);
        if (alone.length > 0) await both((of) => of.flush(alone));
      }
      // Not after every step, because it takes as long as some of them; what went apart is found a little later.
      if (i % 6 === 5 || i === steps.length - 1) await expectEqual(model, [...table.packets.keys()], [...table.executions.keys()]);
    }
    await expectLedgersEqual(memoryBackend(ledger));
  }

  async function expectEqual(model: PacketBackend, nos: readonly number[], executions: readonly number[]): Promise<void> {
    const look = async (of: PacketBackend) => ({
      packets: (await Promise.all(executions.slice(-2).map((no) => of.packetsOf(no, 100)))).map((each) => [...each].sort(byNumber)),
      some: await Promise.all(nos.slice(-2).map((no) => of.packet(no))),
      dead: await of.deadLetters({ limit: 100 }),
      some_dead: await of.deadLetters({ flow: "f", name: "dead", limit: 2, before: { at: now, no: 20 } }),
      executions: await of.executions({ limit: 100 }),
      page: await of.executions({ flow: "f", status: "running", limit: 2 }),
      notes: await Promise.all(executions.slice(-3).map((no) => of.notes(no, 10))),
      counts: [...(await of.counts())].sort((a, b) => (`${a.flow} ${a.queue}` < `${b.flow} ${b.queue}` ? -1 : 1)),
    });
    assert.deepEqual(await look(packets), await look(model));
  }

  async function expectLedgersEqual(model: Backend): Promise<void> {
    for (const scope of ["s", "triggers"]) {
      const listed = async (of: Backend) => (await of.list({ scope, limit: 100 })).map(({ record }) => ({ ...record }));
      assert.deepEqual(await listed(backend), await listed(model));
      for (const { key } of await listed(model)) {
        const log = async (of: Backend) => (await of.attempts({ scope, key, afterAttempt: 0, limit: 100 })).map((entry) => ({ ...entry }));
        assert.deepEqual(await log(backend), await log(model));
      }
    }
  }

  test("on 100 random histories", async () => {
    await fc.assert(fc.asyncProperty(history, play), { numRuns: Number(process.env["HISTORIES"] ?? 60), endOnFailure: true, ...(process.env["SEED"] ? { seed: Number(process.env["SEED"]), path: process.env["SEEDPATH"] ?? "" } : {}) });
  });
});
