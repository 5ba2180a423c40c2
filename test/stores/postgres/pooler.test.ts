import { ConfigurationError, key as keyOf, once, open } from "onceflow";
import pg from "pg";
import { afterAll, beforeAll, expect, inject, onTestFinished, test } from "vitest";
import { acquire } from "../../servers/acquire.js";
import type { Acquired } from "../../servers/acquire-from.js";
import { type FreshDatabase, freshDatabase } from "../../servers/postgres/databases.js";
import { type PoolerSettings, startPgBouncer } from "../../servers/postgres/pgbouncer.js";
import type { Runtime } from "../../servers/provider.js";

const server = inject("postgres");
let program: Acquired<Runtime>;
let database: FreshDatabase | undefined;

beforeAll(async () => {
  program = await acquire("pgbouncer");
  if (server.ok) database = await freshDatabase(server.url);
}, 700_000);

afterAll(async () => {
  await database?.drop();
});

/** Starts a pooler for this test, and returns its URL. */
async function pooled(skip: (reason: string) => never, settings: Omit<PoolerSettings, "target">): Promise<string> {
  if (!server.ok) return skip(server.reason);
  if (!program.ok) return skip(program.reason);
  const pooler = await startPgBouncer(program.running, { target: database?.url ?? "", ...settings });
  onTestFinished(() => pooler.stop());
  return pooler.url;
}

const ways = [
  ["transaction", "options"],
  ["transaction", ""],
  ["session", "options"],
  ["session", ""],
] as const;

test.for(ways)(
  "PgBouncer in %s mode that ignores start-up parameters %j: 480 keys, 480 effects",
  async ([pool_mode, ignored], { skip }) => {
    const size = { default_pool_size: pool_mode === "session" ? 40 : 3 };
    const url = await pooled(skip, { pool_mode, ...size, ...(ignored === "" ? {} : { ignore_startup_parameters: ignored }) });
    const schema = `effects_${pool_mode}_${ignored}`;
    const stores = await Promise.all(Array.from({ length: 4 }, () => open(`${url}?schema=${schema}`, { stallMsMax: 0 })));
    const effects = new Map<string, number>();
    const keys = Array.from({ length: 480 }, (_, i) => `key-${i}`);
    const calls = stores.flatMap((store) =>
      keys.map((key) =>
        once(store, { key: keyOf.of(key) }, async () => {
          effects.set(key, (effects.get(key) ?? 0) + 1);
          return `result of ${key}`;
        }),
      ),
    );
    const outcomes = await Promise.allSettled(calls);
    expect(outcomes.filter(({ status }) => status === "rejected")).toEqual([]);
    expect([...effects.values()].filter((count) => count !== 1)).toEqual([]);
    expect(effects.size).toBe(480);
    const replayed = await Promise.all(keys.map((key) => once(stores[0] as never, { key: keyOf.of(key) }, () => "again")));
    expect(replayed.map(({ value }) => value)).toEqual(keys.map((key) => `result of ${key}`));
    await Promise.all(stores.map((store) => store.close()));
  },
);

test("settings of the store do not leak into sessions that it shares with other clients of the pooler", async ({ skip }) => {
  const url = await pooled(skip, { pool_mode: "transaction", default_pool_size: 1, ignore_startup_parameters: "options" });
  const other = new pg.Client(url);
  await other.connect();
  onTestFinished(() => other.end());
  const settings = async () => {
    const { rows } = await other.query(
      `SELECT pg_backend_pid(), current_setting('default_transaction_isolation') AS level, current_setting('enable_seqscan') AS seqscan,
        current_setting('lock_timeout') AS lock_timeout, (SELECT count(*) FROM pg_prepared_statements) AS prepared, (SELECT count(*) FROM pg_listening_channels()) AS listening`,
    );
    return rows[0] as unknown;
  };
  await other.query("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE");
  const before = await settings();
  expect(before).toMatchObject({ level: "serializable" });
  const store = await open(`${url}?schema=shared`, { stallMsMax: 0 });
  await once(store, { key: keyOf.of("one") }, () => 1);
  const stop = store.onRunChange(() => {});
  await store.runs.claim({ owner: "w", workflows: ["none"], leaseMs: 1000, limit: 1 });
  await store.packets.counts();
  expect(await settings()).toEqual(before);
  stop();
  await store.close();
});

test("PgBouncer in statement mode is refused at open", async ({ skip }) => {
  const url = await pooled(skip, { pool_mode: "statement", ignore_startup_parameters: "options" });
  const error = await open(`${url}?schema=single`, { connectMs: 60_000 }).catch((e: unknown) => e);
  expect(error).toBeInstanceOf(ConfigurationError);
  expect(error).toMatchObject({ code: "POSTGRES_POOLER", message: expect.stringContaining("transaction or session mode") });
});
