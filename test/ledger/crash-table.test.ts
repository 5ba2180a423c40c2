import { type Attempt, GoneError, inspect, key, NotUnknownError, type OnceOptions, once, open, purge, resolve, type Store } from "onceflow";
import { type EffectServer, serveEffects, withCrashPoint } from "onceflow/testing";
import { describe, expect, inject, type TestContext, test } from "vitest";
import type { RunOperation } from "../../src/core/runs/operation.js";
import { append, appendOf, begin, ended, firstOf, lateOf, released, runOf } from "../../src/testing/contract/runs/run-operations.js";
import { sample } from "../kit/effort.js";
import { takeTurns } from "../kit/heavy.js";
import { poll } from "../kit/poll.js";
import { Program } from "../kit/program.js";
import {
  type CrashDatabase,
  type CrashServer,
  dynamoDatabase,
  mongoDatabase,
  postgresDatabase,
  redisDatabase,
  sqliteDatabase,
} from "./crash-database.js";
import * as table from "./crash-table.js";
import type { Doom } from "./programs/crash-worker.js";

takeTurns();

/** Runs the crash table of docs/internals/ledger.md, row by row: a process dies at the point, another one starts, effects are counted. */
const boundMs = 30_000;
const hourMs = 3_600_000;

function start(doom: Doom): Program {
  return new Program("ledger/programs/crash-worker", [JSON.stringify(doom)], { onEnd: () => {} });
}

async function dieAt(doom: Doom): Promise<void> {
  const { signal, stderr } = await start(doom).ended;
  expect(signal, stderr).toBe("SIGKILL");
}

/**
 * Starts one process after another. Each dies one statement later in its transaction, until one succeeds. A process that died
 * before COMMIT must have changed nothing, and one that died after it must have changed everything.
 */
async function dieBeforeEachStatement(doom: Doom, { ours }: CrashDatabase): Promise<void> {
  const before = await ours();
  const deaths: { readonly statement: string; readonly left: unknown }[] = [];
  for (;;) {
    const { signal, code, stderr } = await start({ ...doom, nth: deaths.length + 1 }).ended;
    if (code === 0) break;
    expect(signal, stderr).toBe("SIGKILL");
    deaths.push({ statement: stderr, left: await ours() });
  }
  const commit = deaths.findIndex(({ statement }) => statement === "COMMIT");
  expect(commit).toBeGreaterThan(0);
  const after = await ours();
  for (const [i, { statement, left }] of deaths.entries()) expect(left, `before ${statement}`).toEqual(i <= commit ? before : after);
}

/** In a server a purge is one statement: the client is killed while the statement waits for our lock, half done. */
async function dieInsideStatement(server: CrashServer, doom: Doom, then: "ends" | "goes on"): Promise<void> {
  const held = await server.hold();
  const program = start(doom);
  const pid = await poll(boundMs, held.waiting, () => "the statement did not wait for the lock");
  expect((await program.kill()).signal).toBe("SIGKILL");
  if (then === "ends") await held.terminate(pid);
  else await held.release();
  await poll(
    boundMs,
    async () => (await held.over(pid)) || undefined,
    () => "the server did not end the statement",
  );
  await held.release();
}

interface Scene {
  readonly database: CrashDatabase;
  readonly store: Store;
  readonly provider: EffectServer;
}

const record = { key: key.of("crash") };
const crash = { ...record, leaseMs: 300, waitMs: 5000 };

function callOf({ provider }: Scene) {
  return async ({ effectKey, number }: Attempt) => {
    await fetch(provider.url, { method: "POST", headers: { "idempotency-key": effectKey, "x-attempt": String(number) } });
    return { attempt: number };
  };
}

/** The return value of every handler here. */
function outcomeOf(attempt: number) {
  return { attempt, value: { attempt } };
}

function rawCalls({ provider }: Scene): number {
  const [effectKey = ""] = provider.effects.keys();
  return provider.effects.rawCalls(effectKey);
}

async function dieOnce(row: table.Row, scene: Scene): Promise<void> {
  const { database, store, provider } = scene;
  const { act, point, effect, tx } = row;
  await dieAt({ act, point, effect, tx, url: database.url, providerUrl: provider.url });
  const left = await inspect(store, record);
  // An expired atMostOnce record is unknown by itself: on a slow machine its lease may have expired already.
  expect(row.left === "running" && effect === "atMostOnce" ? ["running", "unknown"] : [row.left]).toContain(left?.state ?? "absent");
  const heldMs = Number(left?.leaseUntil) - Number(left?.startedAt);
  if (row.renewed !== undefined) expect(heldMs > crash.leaseMs).toBe(row.renewed);

  const next = await once(store, { ...crash, effect }, callOf(scene));
  const attempts = row.left === "running" && row.next === "executed" ? ["lapsed", "completed"] : [expect.anything()];
  expect(next).toMatchObject({ status: row.next, attempt: attempts.length });
  if (row.next !== "unknown") expect(next.value).toEqual({ attempt: attempts.length });
  const after = await inspect(store, record);
  expect(after?.state).toBe(row.next === "unknown" ? "unknown" : "completed");
  expect(after?.attempts.map(({ verdict }) => verdict)).toEqual(attempts);
  expect(rawCalls(scene)).toBe(row.rawCalls);
  if (effect === "keyed" && row.rawCalls > 0) expect(provider.effects.applied(after?.effectKey ?? "")).toBe(1);
  if (tx) expect(await database.businessRows()).toBe(row.businessRows);
}

/** The handler has called the provider, and attempt 1 is unknown. */
async function leaveUnknown(scene: Scene, options: OnceOptions<unknown>): Promise<void> {
  const called = once(scene.store, options, async (attempt) => {
    await callOf(scene)(attempt);
    throw new Error("no answer");
  });
  await expect(called).rejects.toThrow("no answer");
}

async function dieResolving(row: table.ResolveRow, scene: Scene): Promise<void> {
  const { database, store } = scene;
  const options = { ...crash, effect: "atMostOnce" as const };
  const as = row.as === "completed" ? { completed: { attempt: 1 } } : row.as;
  await leaveUnknown(scene, options);
  await dieAt({ act: "resolve", point: row.point, as, url: database.url });
  expect((await inspect(store, record))?.state).toBe(row.left);
  expect((await once(store, options, callOf(scene))).status).toBe(row.next);

  const again = resolve(store, { key: crash.key, attempt: 1 }, as);
  if (row.again === "done") await again;
  else await expect(again).rejects.toThrow(NotUnknownError);
  const last = await once(store, options, callOf(scene));
  expect(last).toMatchObject(outcomeOf(row.rawCalls));
  const verdicts = (await inspect(store, record))?.attempts.map(({ verdict }) => verdict);
  expect(verdicts).toEqual(row.as === "completed" ? ["resolved"] : ["resolved", "completed"]);
  expect(rawCalls(scene)).toBe(row.rawCalls);
}

async function dieReconciling(row: table.ReconcileRow, scene: Scene): Promise<void> {
  const { database, store } = scene;
  let asks = 0;
  const reconcile = () => {
    asks += 1;
    return { found: { attempt: 1 } };
  };
  const options = { ...crash, effect: "reconcile" as const, reconcileAfterMs: 0, reconcile };
  await leaveUnknown(scene, options);
  await dieAt({ act: "reconcile", point: row.point, url: database.url });
  expect((await inspect(store, record))?.state).toBe(row.left);
  expect(await once(store, options, callOf(scene))).toEqual({ status: "replayed", ...outcomeOf(1) });
  expect(asks).toBe(row.asks);
  expect(rawCalls(scene)).toBe(1);
}

async function dieAuditing(row: table.AuditRow, scene: Scene): Promise<void> {
  const { database, store } = scene;
  await once(store, crash, callOf(scene));
  const before = await store.read({ scope: "", key: "crash" });
  await dieAt({ act: "ask", point: row.point, url: database.url });
  const entry = { answer: "replay", attempt: 1 };
  expect((await inspect(store, record))?.audit).toMatchObject(Array.from({ length: row.left }, () => entry));
  expect((await store.read({ scope: "", key: "crash" }))?.record).toEqual(before?.record);

  const logging = await open(database.url, { audit: "all", stallMsMax: 0 });
  expect(await once(logging, crash, callOf(scene))).toEqual({ status: "replayed", ...outcomeOf(1) });
  await logging.close();
  expect((await inspect(store, record))?.audit).toMatchObject(Array.from({ length: row.left + 1 }, () => entry));
  expect(rawCalls(scene)).toBe(1);
}

/** `gone` has expired, with an ended attempt and an entry of the audit log; `stripped` has an expired result; `kept` stays. */
async function leaveExpired({ url }: CrashDatabase): Promise<void> {
  const store = await open(url, { audit: "all", purgeEveryMs: 0, stallMsMax: 0 });
  const gone = { key: key.of("gone"), retentionMs: 0 };
  const failed = once(store, gone, () => Promise.reject(new Error("first")));
  await expect(failed).rejects.toThrow("first");
  await once(store, gone, async () => {
    expect((await once(store, { ...gone, onRunning: "return" }, () => "never")).status).toBe("running");
  });
  await once(store, { key: key.of("stripped"), retentionMs: 0, horizonMs: hourMs }, () => "over");
  await once(store, { key: key.of("kept") }, () => "kept");
  await store.close();
}

async function diePurging(row: table.PurgeRow, { database, store }: Scene): Promise<void> {
  await leaveExpired(database);
  const before = await database.ours();
  const doom: Doom = { act: "purge", url: database.url };
  const inTurn = row.point === "inside purge" && database.server === undefined;
  if (inTurn) await dieBeforeEachStatement({ ...doom, point: "inside purge" }, database);
  else if (row.point === "inside purge") await dieInsideStatement(database.server as CrashServer, doom, row.server ?? "ends");
  else await dieAt({ ...doom, point: row.point });
  if (row.left === "all" && !inTurn) expect(await database.ours()).toEqual(before);

  // If each process died one statement later, the last one succeeded, so the next purge finds nothing.
  expect(await purge(store)).toBe(row.left === "all" && !inTurn ? 2 : 0);
  const gone = { scope: "", key: "gone" };
  expect(await store.read(gone)).toBeUndefined();
  expect(await store.attempts({ ...gone, afterAttempt: 0, limit: 10 })).toEqual([]);
  expect(await store.audited(gone, 10)).toEqual([]);
  expect(await inspect(store, { key: "stripped" })).toMatchObject({ state: "completed", kept: false, attempt: 1 });

  const ask = (name: string) => once(store, { key: key.of(name) }, () => "new");
  expect(await ask("gone")).toEqual({ status: "executed", attempt: 1, value: "new" });
  await expect(ask("stripped")).rejects.toThrow(GoneError);
  expect(await ask("kept")).toEqual({ status: "replayed", attempt: 1, value: "kept" });
}

async function dieMigrating(row: table.MigrationRow, database: CrashDatabase): Promise<void> {
  const doom: Doom = { act: "open", point: row.point, url: database.url };
  const old = row.of !== "a new database";
  if (old) {
    await dieAt({ ...doom, point: "after a version", nth: Number(row.of.match(/\d/) ?? 1) });
    await database.addOldRecord();
  }
  const before = await database.ours();
  const inTurn = row.point === "inside migration";
  if (inTurn) await dieBeforeEachStatement(doom, database);
  else await dieAt(doom);
  const left = await database.ours();
  if (row.left === "as it was" && !inTurn) expect(left).toEqual(before);

  const store = await open(database.url, { stallMsMax: 0 });
  const now = await database.ours();
  expect(now).not.toEqual({});
  // The process that died has migrated, or the last one, which succeeded: nothing is missing.
  if (row.left === "migrated" || inTurn) expect(now).toEqual(left);
  const next = await once(store, crash, ({ number }) => ({ attempt: number }));
  expect(next).toEqual(old ? { status: "replayed", ...outcomeOf(2) } : { status: "executed", ...outcomeOf(1) });
  expect((await inspect(store, record))?.attempts.map(({ verdict }) => verdict)).toEqual(old ? ["lapsed", "completed"] : ["completed"]);
  await store.close();
}

/** Prepares a run that its owner executed alone and left; for an entry after the end, one that has ended. */
async function dieWriting({ write }: table.RunRow, { database, store }: Scene): Promise<void> {
  const alone = { deaths: 1, crashes: 0, alone: true };
  const owned = await begin(store, { first: firstOf({ trial: alone }, 0), retentionMs: 0 });
  const late = write === "an entry after the end";
  if (late) await append(store, owned, { next: ended("failed", null, 1) });
  const avoid = { workers: ["doomed"], until: 9e12 };
  const operations: Record<typeof write, RunOperation | undefined> = {
    "a claim that counts a death": undefined,
    "a release": appendOf(owned, { trial: { ...alone, deaths: 2 }, next: released({ status: "parked", trouble: "why", avoid }) }),
    "an end with unsettled steps": appendOf(owned, { trial: { ...alone, deaths: 0 }, next: ended("failed", null, 1) }),
    "an entry after the end": lateOf({ ...owned, seq: 2 }),
  };
  const operation = operations[write];
  const doom: Doom = { act: operation ? "commit" : "claim", point: "inside run", url: database.url, ...(operation && { operation }) };
  await dieBeforeEachStatement(doom, database);
  const run = await runOf(store);
  const after: Record<typeof write, object> = {
    "a claim that counts a death": { owner: "doomed", epoch: 2, deaths: 2, crashes: 1, alone: false },
    "a release": { owner: null, status: "parked", deaths: 2, crashes: 0, alone: true, avoid: ["doomed"], avoidUntil: avoid.until },
    "an end with unsettled steps": { owner: null, status: "failed", deaths: 0, unsettled: 1 },
    "an entry after the end": { owner: null, status: "failed", unsettled: 0 },
  };
  expect(run).toMatchObject(after[write]);
  expect(await store.runs.purge(10)).toBe(late ? 1 : 0);
}

interface Kind {
  /** Statements run in a server and outlive their client. */
  readonly server: boolean;
  /** Has no transactions to die in and no migrations; the reader decides when a lease has expired. */
  readonly oneByOne?: boolean;
}

function cases(
  create: (onTestFinished: TestContext["onTestFinished"]) => Promise<CrashDatabase>,
  { server, oneByOne = false }: Kind,
): void {
  const scene = async ({ onTestFinished }: TestContext, honoursKeys = false): Promise<Scene> => {
    const database = await create(onTestFinished);
    const provider = await serveEffects({ honoursKeys });
    onTestFinished(() => provider.close());
    const store = await open(database.url, { purgeEveryMs: 0, stallMsMax: 0 });
    onTestFinished(() => store.close());
    return { database, store, provider };
  };
  const some = <Row>(rows: readonly Row[]) => sample(rows, server || oneByOne ? 4 : 2);
  for (const row of some(table.rows.filter((row) => !oneByOne || (!row.tx && row.renewed === undefined))))
    test(`${row.effect}${row.tx ? " in a transaction" : ""}, dies ${row.point}: ${row.after}`, async (context) =>
      dieOnce(row, await scene(context, row.effect === "keyed")));
  for (const row of some(table.resolveRows))
    test(`resolved as ${row.as}, dies ${row.point}: ${row.after}`, async (context) => dieResolving(row, await scene(context)));
  for (const row of some(table.reconcileRows))
    test(`reconciled, dies ${row.point}: ${row.after}`, async (context) => dieReconciling(row, await scene(context)));
  for (const row of some(table.auditRows))
    test(`asked, dies ${row.point}: ${row.after}`, async (context) => dieAuditing(row, await scene(context)));
  const outside = (row: table.PurgeRow) => !oneByOne || row.point !== "inside purge";
  for (const row of some(table.purgeRows.filter((row) => (server || row.server === undefined) && outside(row))))
    test(`dies ${row.point}${row.server ? `, the server ${row.server}` : ""}: ${row.after}`, async (context) =>
      diePurging(row, await scene(context)));
  for (const row of oneByOne ? [] : some(table.runRows.filter(({ statement }) => !server || !statement)))
    test(`${row.write}, dies inside: ${row.after}`, async (context) => dieWriting(row, await scene(context)));
  const has = ({ of }: table.MigrationRow) => !server || of !== "a ledger of version 6";
  for (const row of oneByOne ? [] : some(table.migrationRows.filter(has)))
    test(`${row.of}, dies ${row.point}: ${row.after}`, async ({ onTestFinished }) => dieMigrating(row, await create(onTestFinished)));
}

// Some cases start a dozen processes one after the other, which takes a while on a busy machine.
const options = { concurrent: true, timeout: 240_000 };

describe("the crash table on SQLite", options, () => cases(sqliteDatabase, { server: false }));

const postgres = inject("postgres");
describe.skipIf(!postgres.ok)("the crash table on PostgreSQL", options, () =>
  cases((onTestFinished) => postgresDatabase(postgres.ok ? postgres.url : "", onTestFinished), { server: true }),
);

const dynamodb = inject("dynamodb");
describe.skipIf(!dynamodb.ok)("the crash table on DynamoDB Local", options, () =>
  cases((onTestFinished) => dynamoDatabase(dynamodb.ok ? dynamodb.url : "", onTestFinished), { server: false, oneByOne: true }),
);

const redis = inject("redis");
describe.skipIf(!redis.ok)("the crash table on Redis", options, () =>
  cases((onTestFinished) => redisDatabase(redis.ok ? redis.url : "", onTestFinished), { server: false, oneByOne: true }),
);

const mongodb = inject("mongodb");
describe.skipIf(!mongodb.ok)("the crash table on MongoDB (an emulator, unless given)", options, () =>
  cases((onTestFinished) => mongoDatabase(mongodb.ok ? mongodb.url : "", onTestFinished), { server: false, oneByOne: true }),
);

test.each(["before renew", "after renew", "before audit", "after audit"] as const)(
  "a store cannot die %s, which happens inside the store: the error says to wrap the backend",
  async (point) => {
    const store = await open("memory:");
    expect(() => withCrashPoint(store, point, () => {})).toThrow(/wrap the backend/);
    await store.close();
  },
);
