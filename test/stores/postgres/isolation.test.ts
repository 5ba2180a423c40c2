import { inspect, key as keyOf, once, open, type Store } from "onceflow";
import { createOutbox } from "onceflow/outbox";
import { createHook, sleep, step, work, workflow } from "onceflow/workflow";
import { readJournal, resumeHook, start } from "onceflow/workflow/api";
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from "vitest";
import type { StartRun } from "../../../src/core/runs/operation.js";
import { letTimePass } from "../../kit/real-time.js";
import { until } from "../../kit/until.js";
import { acquire } from "../../servers/acquire.js";
import { execute, type FreshDatabase, freshDatabase } from "../../servers/postgres/databases.js";
import { startPgBouncer } from "../../servers/postgres/pgbouncer.js";
import type { Server } from "../../servers/provider.js";

const server = inject("postgres");

/** Opens one store for each simulated process. The test closes them with `closeAll`. */
async function openMany(url: string, count: number): Promise<Store[]> {
  return await Promise.all(Array.from({ length: count }, () => open(url, { stallMsMax: 0, purgeEveryMs: 0 })));
}

async function closeAll(stores: readonly Store[]): Promise<void> {
  await Promise.all(stores.map((store) => store.close()));
}

const cases = [
  ["repeatable read", "directly"],
  ["serializable", "directly"],
  ["repeatable read", "through PgBouncer in transaction mode"],
  ["serializable", "through PgBouncer in transaction mode"],
] as const;

describe.skipIf(!server.ok).for(cases)("a database whose default isolation level is %s, %s", ([level, way]) => {
  let database: FreshDatabase;
  let pooler: Server | undefined;
  let address = "";
  let missing: string | undefined;
  beforeEach(({ skip }) => missing !== undefined && skip(missing));
  beforeAll(async () => {
    database = await freshDatabase(server.ok ? server.url : "");
    const name = new URL(database.url).pathname.slice(1);
    await execute(database.url, `ALTER DATABASE ${name} SET default_transaction_isolation = '${level}'`);
    address = database.url;
    if (way === "directly") return;
    const program = await acquire("pgbouncer");
    if (!program.ok) {
      missing = program.reason;
      return;
    }
    pooler = await startPgBouncer(program.running, { target: database.url, pool_mode: "transaction", default_pool_size: 10 });
    address = pooler.url;
  });
  afterAll(async () => {
    await pooler?.stop();
    await database?.drop();
  });

  test("many processes open a new schema at the same time", async () => {
    for (let round = 0; round < 3; round++) await closeAll(await openMany(`${address}?schema=opened_${round}`, 12));
  });

  test("every write of onceflow runs at READ COMMITTED", async () => {
    const schema = "watched";
    const stores = await openMany(`${address}?schema=${schema}`, 1);
    const [store] = stores as [Store];
    await execute(database.url, refuseOtherLevels(schema));
    await once(store, { key: keyOf.of("one") }, () => 1);
    const [child, note] = [workflow(`child ${level}`, async () => 1), step(`note ${level}`, async () => 2)];
    const parent = workflow(`parent ${level}`, async () => {
      const hook = createHook<string>({ token: `hook ${level}` });
      const run = await start(child);
      await note();
      return [await run.returnValue, await hook];
    });
    const worker = await work(store, { workflows: [child, parent], pollMs: 20 });
    const run = await start(parent, [], { store });
    await expect.poll(async () => await store.runs.hook(`hook ${level}`), { timeout: 60_000 }).toBeDefined();
    await resumeHook(`hook ${level}`, "said", { store });
    expect(await run.returnValue).toEqual([1, "said"]);
    const outbox = createOutbox(store, { name: "watched" });
    const published: unknown[] = [];
    const relay = outbox.relay(({ payload }) => void published.push(payload), { pollMs: 20 });
    await outbox.add(undefined, { key: "lane", payload: 1 });
    await outbox.add(undefined, { payload: 2 });
    await expect.poll(() => published.length, { timeout: 60_000 }).toBe(2);
    await relay.stop();
    await worker.stop();
    await closeAll(stores);
  });

  test("processes that begin, renew and settle the same keys see no serialization failure", async () => {
    const stores = await openMany(`${address}?schema=ledger`, 6);
    let executions = 0;
    const keys = Array.from({ length: 20 }, (_, i) => keyOf.of(`key-${i}`));
    const calls = stores.flatMap((store) =>
      keys.map((key) =>
        once(store, { key, leaseMs: 3000 }, async () => {
          executions += 1;
          await until("its lease is renewed", async () => {
            const { leaseUntil, startedAt } = (await inspect(store, { key })) ?? expect.fail("the key is there");
            return Number(leaseUntil) > Number(startedAt) + 3000;
          });
          return key;
        }),
      ),
    );
    const results = await Promise.all(calls);
    expect(results.map(({ value }) => value)).toEqual(stores.flatMap(() => keys));
    expect(executions).toBe(keys.length);
    await closeAll(stores);
  });

  test("workers that claim and renew at the same time lose no lease", async () => {
    const stores = await openMany(`${address}?schema=runs`, 4);
    const effects = new Map<string, number>();
    const charge = step(`charge ${level} ${way}`, async (id: string) => {
      await letTimePass(20, "other workers claim and renew while the step runs");
      effects.set(id, (effects.get(id) ?? 0) + 1);
    });
    const order = workflow(`order ${level} ${way}`, async (id: string) => {
      await charge(`${id} first`);
      await sleep(5);
      await charge(`${id} second`);
    });
    const workers = await Promise.all(
      stores.map((store) => work(store, { workflows: [order], leaseMs: 3000, pollMs: 20, concurrency: 30 })),
    );
    const runs = await Promise.all(
      Array.from({ length: 120 }, (_, i) => start(order, [`${i}`], { id: `run-${i}`, store: stores[i % stores.length] as Store })),
    );
    await Promise.all(runs.map((run) => run.returnValue));
    expect([...effects.values()].filter((count) => count !== 1)).toEqual([]);
    const [store] = stores as [Store];
    const journals = await Promise.all(runs.map((run) => readJournal(run.id, { store })));
    expect(journals.flat().filter(({ type }) => type === "claim")).toEqual([]);
    await Promise.all(workers.map((worker) => worker.stop()));
    await closeAll(stores);
  });

  test("relays and senders of one outbox see no serialization failure", async () => {
    const stores = await openMany(`${address}?schema=outbox`, 3);
    const published: string[] = [];
    const outboxes = stores.map((store) => createOutbox(store, { name: "mail", backoffMs: 10 }));
    const relays = outboxes.map((outbox) => outbox.relay(({ id }) => void published.push(id), { pollMs: 20, leaseMs: 5000 }));
    const adding = Array.from({ length: 90 }, (_, i) =>
      outboxes[i % 3]?.add(undefined, { id: `m-${i}`, key: `lane-${i % 7}`, payload: i }),
    );
    await Promise.all(adding);
    await expect.poll(() => published.length, { timeout: 60_000 }).toBe(90);
    expect(new Set(published).size).toBe(90);
    await Promise.all(relays.map((relay) => relay.stop()));
    await closeAll(stores);
  });

  test("claims and renewals of several workers are never refused", async () => {
    const stores = await openMany(`${address}?schema=claims`, 4);
    const [first] = stores as [Store];
    for (let i = 0; i < 40; i++) await first.commit({ run: pending(`claim-${i}`) });
    const rounds = stores.map(async (store, n) => {
      for (let round = 0; round < 25; round++) {
        await store.runs.claim({ owner: `owner-${n}`, workflows: ["claimed"], leaseMs: 5, limit: 10 });
        await store.runs.renew({ owner: `owner-${n}`, leaseMs: 5 });
      }
    });
    await Promise.all(rounds);
    await closeAll(stores);
  });
});

function pending(id: string): StartRun {
  const run = { id, workflow: "claimed", input: "[]", fingerprint: null, parent: null, creator: id, retentionMs: null };
  return { verb: "start", ...run, first: null };
}

/** Adds a trigger to every table of the schema that refuses writes at any level other than READ COMMITTED. */
function refuseOtherLevels(schema: string): string {
  return `CREATE FUNCTION ${schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $body$ BEGIN
      IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'written at %', current_setting('transaction_isolation');
      END IF;
      RETURN NULL;
    END $body$;
    DO $do$ DECLARE name text; BEGIN
      FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = '${schema}' LOOP
        EXECUTE format('CREATE TRIGGER refuse AFTER INSERT OR UPDATE OR DELETE ON ${schema}.%I EXECUTE FUNCTION ${schema}.refuse()', name);
      END LOOP;
    END $do$`;
}
