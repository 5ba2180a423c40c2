import assert from "node:assert/strict";
import { join } from "node:path";
import { MongoClient } from "mongodb";
import { open } from "onceflow";
import type { Store } from "onceflow/store";
import { afterAll, describe, expect, inject, onTestFinished, test } from "vitest";
import { chooseDriver, openDatabase, type SqliteDatabase } from "../../src/stores/sqlite/driver.js";
import {
  append,
  appendLate,
  begin,
  claim,
  create,
  ended,
  firstOf,
  hookOf,
  ownedOf,
  play,
  post,
  released,
  runOf,
  untried,
} from "../../src/testing/contract/runs/run-operations.js";
import { temporaryFolder } from "../kit/temporary-folder.js";
import { freshMongoDatabase } from "../servers/mongodb/databases.js";
import { olderPostgres, olderSqlite, versions } from "../stores/older-schema.js";
import { database, direct, ownPostgres, server } from "../stores/postgres/own-postgres.js";

ownPostgres();

const folder = temporaryFolder(afterAll);

const mongodb = inject("mongodb");
const hourMs = 3_600_000;

async function opened(url: string): Promise<Store> {
  const store = await open(url, { purgeEveryMs: 0 });
  onTestFinished(() => store.close());
  return store;
}

/** Creates runs of every kind that a version before suspects could have. */
async function fill(store: Store): Promise<void> {
  await create(store, { id: "pending" });
  await begin(store, { id: "running", first: firstOf({ events: "running" }, hourMs) });
  await begin(store, { id: "lapsed", first: firstOf({ events: "lapsed", hooks: [hookOf("token")] }, 0) });
  await post(store, { to: { run: "lapsed" }, payload: "mail" });
  await append(store, await begin(store, { id: "diverged" }), { next: released({ status: "diverged", trouble: "why", wakeAt: 0 }) });
  await append(store, await begin(store, { id: "unknown" }), { next: released({ status: "unknown", trouble: "why" }) });
  await play(store, { id: "over", retentionMs: 0 });
  await play(store, { id: "kept" }, ended("failed"));
}

const ids = ["pending", "running", "lapsed", "diverged", "unknown", "over", "kept"];

async function contentsOf(store: Store) {
  const all = [];
  for (const id of ids) {
    const { run, journal, mail, hooks } = (await store.runs.load(id)) ?? assert.fail(id);
    all.push({ run: { ...run }, journal, mail, hooks });
  }
  return all;
}

/** Asserts that the old data is unchanged and has no deaths, and that all new features work on it. */
async function expectMigrated(stores: readonly Store[], before: Awaited<ReturnType<typeof contentsOf>>): Promise<void> {
  const [store, other] = stores as [Store, Store];
  for (const each of stores) expect(await contentsOf(each)).toEqual(before);
  for (const { run } of before) expect(run).toMatchObject(untried);
  expect(await store.runs.workers()).toEqual([]);
  const { claimed } = await claim(store, { owner: "new" });
  expect(Object.fromEntries(claimed.map(({ run }) => [run.id, run.deaths]))).toEqual({ pending: 0, lapsed: 1, diverged: 0 });
  const lapsed = claimed.find(({ run }) => run.id === "lapsed") ?? assert.fail("the lapsed run was not claimed");
  expect([lapsed.mail.length, lapsed.hooks.length, lapsed.journal[0]?.events]).toEqual([1, 1, "lapsed"]);
  const avoid = { workers: ["new"], until: Date.now() + hourMs };
  const parked = await append(store, ownedOf(lapsed), {
    trial: { deaths: 2, crashes: 1, alone: false },
    next: released({ status: "parked", trouble: "why", wakeAt: 0, avoid }),
  });
  expect((await other.runs.list({ status: "parked", limit: 9 })).map(({ id }) => id)).toEqual(["lapsed"]);
  expect((await claim(other, { owner: "new" })).claimed).toEqual([]);
  expect((await claim(other, { suspects: false })).claimed).toEqual([]);
  const [again] = (await claim(other)).claimed;
  expect(again?.run).toMatchObject({ id: "lapsed", deaths: 2, crashes: 1, avoid: ["new"], epoch: parked.epoch + 1 });
  // The old version ended the run: it has no unsettled steps, and is purged as before.
  expect(await store.runs.purge(100)).toBe(1);
  const { creator } = await runOf(store, "kept");
  await appendLate(store, { id: "kept", creator, owner: "", epoch: 1, seq: 2 }, { unsettled: 1 });
  expect((await runOf(other, "kept")).unsettled).toBe(1);
  await other.runs.renew({ owner: "new", leaseMs: hourMs, signOfLife: { workflows: ["work"], version: "2" } });
  expect(await store.runs.workers()).toMatchObject([{ id: "new", workflows: ["work"], version: "2", live: true }]);
}

const from = (newest: number) => Array.from({ length: newest - versions.oldest }, (_, i) => i + versions.oldest);

describe("runs in a SQLite file of an earlier version", () => {
  test.each(from(versions.sqlite))("version %i: they continue when several processes open the file at once", async (version) => {
    const path = join(folder, `version-${version}.db`);
    const url = `sqlite:${path}`;
    const old = await open(url, { purgeEveryMs: 0 });
    await fill(old);
    const before = await contentsOf(old);
    await old.close();
    const raw = openDatabase(path, chooseDriver());
    olderSqlite(raw, version);
    raw.close();
    const stores = await Promise.all([opened(url), opened(url), opened(url)]);
    await expectMigrated(stores, before);
  });

  // The statements of the old version name their columns, and SQLite prepares them again: the process continues, as after every earlier migration.
  test("a process of the old version that has the file open continues", async () => {
    const path = join(folder, "open.db");
    const url = `sqlite:${path}`;
    const store = await open(url, { purgeEveryMs: 0 });
    await fill(store);
    await store.close();
    const raw = openDatabase(path, chooseDriver());
    onTestFinished(() => void raw.close());
    olderSqlite(raw, 6);
    const old = new OldProcess(raw);
    expect(old.listOpen()).toBe(5);
    const young = await opened(url);
    old.start("by the old version");
    expect(await runOf(young, "by the old version")).toMatchObject({ status: "pending", ...untried });
    expect(old.claim("by the old version")).toBe(1);
    expect(await runOf(young, "by the old version")).toMatchObject({ owner: "old", epoch: 1, deaths: 0 });
    expect(old.release("by the old version")).toBe(1);
    expect(old.listOpen()).toBe(6);
    expect((await claim(young)).claimed.map(({ run }) => run.id).sort()).toEqual(["by the old version", "diverged", "lapsed", "pending"]);
  });
});

/** The statements of version 6, prepared before the migration. */
class OldProcess {
  readonly #start;
  readonly #claim;
  readonly #release;
  readonly #open;

  constructor(database: SqliteDatabase) {
    this.#start = database.prepare(`INSERT INTO onceflow_runs
      (status, epoch, mail, consumed, id, workflow, fingerprint, parent, creator, retention_ms, input, owner, wake_at, created_at, started_at)
      VALUES ('pending', 0, 0, 0, ?, 'work', NULL, NULL, 'old', NULL, '[]', NULL, 0, 0, NULL) ON CONFLICT (id) DO NOTHING`);
    this.#claim = database.prepare(`UPDATE onceflow_runs SET owner = 'old', epoch = epoch + 1, wake_at = 9e12, status = 'running',
      trouble = NULL, started_at = coalesce(started_at, 0) WHERE id = ?`);
    this.#release = database.prepare(`UPDATE onceflow_runs SET owner = NULL, status = 'running', trouble = NULL,
      consumed = coalesce(NULL, consumed), wake_at = CASE WHEN mail > coalesce(NULL, consumed) THEN 1 ELSE 0 END WHERE id = ?`);
    this.#open = database.prepare("SELECT count(*) AS n FROM onceflow_runs INDEXED BY onceflow_runs_queue WHERE ended_at IS NULL");
  }

  start = (id: string) => Number(this.#start.run(id).changes);
  claim = (id: string) => Number(this.#claim.run(id).changes);
  release = (id: string) => Number(this.#release.run(id).changes);
  listOpen = () => (this.#open.get() as { n: number }).n;
}

describe.skipIf(!server.ok)("runs in a PostgreSQL schema of an earlier version", () => {
  test.each(from(versions.postgres))("version %i: they continue when several processes open the schema at once", async (version) => {
    const schema = `version_${version}`;
    const url = `${database.url}?schema=${schema}`;
    const old = await open(url, { purgeEveryMs: 0 });
    await fill(old);
    const before = await contentsOf(old);
    await old.close();
    await olderPostgres(direct, schema, version);
    const stores = await Promise.all([opened(url), opened(url), opened(url)]);
    await expectMigrated(stores, before);
  });

  // A database that never had the enum value, which the tests above cannot remove.
  test("the new status is added to the type in the transaction of the migration", async () => {
    const url = `${database.url}?schema=without_parked`;
    const old = await open(url, { purgeEveryMs: 0 });
    await fill(old);
    const before = await contentsOf(old);
    await old.close();
    await olderPostgres(direct, "without_parked", 5);
    await direct.query(`DROP INDEX without_parked.runs_listed;
      ALTER TYPE without_parked.run_status RENAME TO with_parked;
      CREATE TYPE without_parked.run_status AS ENUM ('pending', 'running', 'unknown', 'diverged', 'completed', 'failed', 'cancelled');
      ALTER TABLE without_parked.runs ALTER COLUMN status TYPE without_parked.run_status USING status::text::without_parked.run_status;
      DROP TYPE without_parked.with_parked;
      CREATE INDEX runs_listed ON without_parked.runs (workflow, status, created_at)`);
    await expectMigrated(await Promise.all([opened(url), opened(url)]), before);
  });

  test("a process of the old version that has the schema open continues", async () => {
    const url = `${database.url}?schema=open_meanwhile`;
    const store = await open(url, { purgeEveryMs: 0 });
    await fill(store);
    await store.close();
    await olderPostgres(direct, "open_meanwhile", 5);
    const start = {
      name: "old-start",
      text: "INSERT INTO open_meanwhile.runs (id, workflow, status, input, epoch, wake_at, creator, created_at) VALUES ($1, 'work', 'pending', '[]', 0, 0, 'old', 0)",
    };
    const read = { name: "old-read", text: "SELECT id, workflow, status, owner, epoch FROM open_meanwhile.runs WHERE id = $1" };
    const take = {
      name: "old-take",
      text: "UPDATE open_meanwhile.runs r SET owner = 'old', epoch = r.epoch + 1, wake_at = 9e12::bigint, status = 'running' WHERE id = $1",
    };
    await direct.query({ ...start, values: ["before"] });
    await direct.query({ ...read, values: ["before"] });
    const young = await opened(url);
    await direct.query({ ...start, values: ["after"] });
    expect((await direct.query({ ...take, values: ["after"] })).rowCount).toBe(1);
    expect((await direct.query({ ...read, values: ["after"] })).rows).toMatchObject([{ owner: "old", epoch: 1, status: "running" }]);
    expect(await runOf(young, "after")).toMatchObject({ owner: "old", ...untried });
  });
});

describe.skipIf(!mongodb.ok)("runs in MongoDB from before there were suspects", () => {
  test("they continue: absent members mean no suspect", async () => {
    const { url, drop } = await freshMongoDatabase(mongodb.ok ? mongodb.url : "");
    onTestFinished(drop);
    const old = await open(url, { purgeEveryMs: 0 });
    await fill(old);
    const before = await contentsOf(old);
    await old.close();
    const client = await new MongoClient(url).connect();
    onTestFinished(() => client.close());
    const members = Object.fromEntries(Object.keys(untried).map((member) => [member, ""]));
    await client.db().collection("onceflow_runs").updateMany({}, { $unset: members });
    await expectMigrated(await Promise.all([opened(url), opened(url)]), before);
  });
});

describe("workers that were silent for an hour", () => {
  async function expectForgotten(store: Store, age: (id: string, ms: number) => Promise<unknown> | unknown): Promise<void> {
    const beat = (owner: string) => store.runs.renew({ owner, leaseMs: 2 * hourMs, signOfLife: { workflows: [], version: null } });
    for (const owner of ["silent", "quiet", "alive"]) await beat(owner);
    await age("silent", hourMs);
    await age("quiet", hourMs - 60_000);
    const known = async () => (await store.runs.workers()).map(({ id }) => id);
    expect(await known()).toEqual(["alive", "quiet"]);
    expect(await store.runs.purge(10)).toBe(0);
    expect(await known()).toEqual(["alive", "quiet"]);
    await beat("silent");
    const [again] = (await store.runs.workers()).filter(({ id }) => id === "silent");
    expect(again?.startedAt).toBe(again?.seenAt);
  }

  test("are not listed, and a purge removes them, on SQLite", async () => {
    const path = join(folder, "workers.db");
    const store = await opened(`sqlite:${path}`);
    const raw = openDatabase(path, chooseDriver());
    onTestFinished(() => void raw.close());
    const sql = "UPDATE onceflow_run_workers SET seen_at = seen_at - ?, started_at = started_at - ? WHERE id = ?";
    await expectForgotten(store, (id, ms) => raw.prepare(sql).run(ms, ms, id));
  });

  test.skipIf(!server.ok)("are not listed, and a purge removes them, on PostgreSQL", async () => {
    const store = await opened(`${database.url}?schema=workers`);
    const sql = "UPDATE workers.run_workers SET seen_at = seen_at - $1, started_at = started_at - $1 WHERE id = $2";
    await expectForgotten(store, (id, ms) => direct.query(sql, [ms, id]));
  });

  test.skipIf(!mongodb.ok)("are not listed, and a purge removes them, on MongoDB", async () => {
    const { url, drop } = await freshMongoDatabase(mongodb.ok ? mongodb.url : "");
    onTestFinished(drop);
    const store = await opened(url);
    const client = await new MongoClient(url).connect();
    onTestFinished(() => client.close());
    const workers = client.db().collection<{ _id: string; seenAt: number; startedAt: number }>("onceflow_workers");
    await expectForgotten(store, async (id, ms) => {
      const { seenAt = 0, startedAt = 0 } = (await workers.findOne({ _id: id })) ?? {};
      await workers.updateOne({ _id: id }, { $set: { seenAt: seenAt - ms, startedAt: startedAt - ms } });
    });
  });
});
