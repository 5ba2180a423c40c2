import { join } from "node:path";
import { open } from "onceflow";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { chooseDriver, openDatabase, type SqliteDatabase } from "../../src/stores/sqlite/driver.js";
import { migrate } from "../../src/stores/sqlite/migrations/migrate.js";
import {
  countersOf,
  dead,
  done,
  Hand,
  keyOf,
  notesOf,
  partOf,
  retry,
  submit,
} from "../../src/testing/contract/packets/packet-operations.js";
import { temporaryFolder } from "../kit/temporary-folder.js";
import { olderSqlite, versions } from "../stores/older-schema.js";
import { watchedPackets } from "./watched-packets.js";

let path = "";

beforeEach(() => {
  const folder = temporaryFolder(onTestFinished);
  path = join(folder, "ledger.db");
});

async function handOn(): Promise<Hand> {
  const store = await open(`sqlite:${path}`, { purgeEveryMs: 0 });
  onTestFinished(() => store.close());
  return await Hand.on(store);
}

/** The driver's handle on the same file. */
function handle(): SqliteDatabase {
  const database = openDatabase(path, chooseDriver());
  onTestFinished(() => void database.close());
  return database;
}

describe("packets on SQLite", () => {
  test("a claim, a purge and a count that find nothing write nothing to the file", async () => {
    const hand = await handOn();
    const version = handle().prepare("PRAGMA data_version");
    await hand.send(hand.packet({ delayMs: 60_000 }));
    const before = version.get();
    for (let i = 0; i < 3; i++) await hand.claim();
    await hand.store.packets.purge(100);
    await hand.store.packets.counts();
    expect(version.get()).toEqual(before);
  });

  // The number that a new queue got in a rolled-back transaction goes to the next new queue of any handle.
  test("a queue that was named in a refused flush is not mistaken for another queue", async () => {
    const [hand, other] = [await handOn(), await handOn()];
    const poison = hand.sendOf([hand.packet({ queue: "mine" }), hand.packet({ payload: '"\0"' })]);
    await expect(submit(hand.store, poison)).rejects.toThrow(/NUL/);
    await other.send(other.packet({ queue: "other's" }));
    await hand.send(hand.packet({ queue: "mine" }));
    expect((await other.take("other's")).queue).toBe("other's");
    expect((await other.take("mine")).queue).toBe("mine");
  });

  test("a packet that cannot be stored fails alone, and nothing of its send is written", async () => {
    const hand = await handOn();
    const [good, bad] = [hand.packet(), hand.packet({ lane: { name: "a\0b", deadBlocks: false } })];
    const answers = await Promise.allSettled([hand.send(good), hand.send(hand.packet(), bad)]);
    expect(answers.map(({ status }) => status)).toEqual(["fulfilled", "rejected"]);
    expect((await hand.claim()).claimed.map(({ no }) => no)).toEqual([good.no]);
  });

  test("packets that are sent in a transaction cannot be claimed in it", async () => {
    const hand = await handOn();
    const { store } = hand;
    const send = hand.sendOf([hand.packet({ claim: true })]);
    await expect(store.transact(async (tx) => await store.packets.sendWithin?.(tx, send))).rejects.toThrow(/rolled back/);
  });

  const versionOf = (old: SqliteDatabase) =>
    old
      .prepare("SELECT max(version) AS version FROM (SELECT version FROM onceflow_schema UNION SELECT version FROM onceflow_additions)")
      .get();

  test("a ledger of schema version 4 can store packets when it is opened, and keeps its data", async () => {
    const old = handle();
    migrate(old, path);
    olderSqlite(old, 4);
    old.exec("INSERT INTO onceflow_hooks VALUES (1, 'token', 1, 'about', NULL, 1)");
    const hand = await handOn();
    await hand.send(hand.packet());
    await hand.take();
    expect(versionOf(old)).toEqual({ version: versions.sqlite });
    expect(old.prepare("SELECT count(*) AS hooks FROM onceflow_hooks").get()).toEqual({ hooks: 1 });
  });

  test("a ledger of schema version 5 keeps its packets, both due and claimed", async () => {
    const before = await handOn();
    const [due, owned] = [before.packet(), await before.sendAndClaim()];
    await before.send(due);
    const old = handle();
    olderSqlite(old, 5);
    const hand = await handOn();
    expect(versionOf(old)).toEqual({ version: versions.sqlite });
    expect((await hand.take()).no).toBe(due.no);
    const again = new Hand(hand.store, before.no);
    const { placed } = await again.done(owned, ...[7, 8].map((n) => before.packet({ claim: true, payload: `${n}` })));
    expect(placed.map(({ kind }) => kind)).toEqual(["claimed", "claimed"]);
    expect(await hand.store.packets.packet(owned.no)).toBeUndefined();
  });

  test("a cached row is not used after another handle has changed it", async () => {
    const [hand, other] = [await handOn(), await handOn()];
    const packet = await hand.sendAndClaim();
    // The same worker on another handle, of which this handle does not know.
    const elsewhere = new Hand(other.store, hand.no);
    await elsewhere.settle(packet, retry(0, "[1]"));
    const again = await elsewhere.take();
    expect(again).toMatchObject({ no: packet.no, attempt: 2, history: "[1]" });
    expect(await hand.store.packets.packet(packet.no)).toMatchObject({ attempt: 2, history: "[1]" });
    await hand.done(again);
    expect(await other.store.packets.packet(packet.no)).toBeUndefined();
  });
});

describe("statements of packets on SQLite", () => {
  test("a hop deletes the row that its fence names and inserts one; the flow is read once", async () => {
    const { hand, statements } = await watchedPackets(handle(), path);
    const execution = await hand.trigger({});
    const first = await hand.take();
    statements();
    const { placed } = await hand.done(first, hand.packet({ execution, claim: true }));
    expect(statements()).toEqual(["DELETE onceflow_packets", "SELECT onceflow_flows", "INSERT onceflow_packets"]);
    const next = placed[0]?.kind === "claimed" ? placed[0].packet : expect.fail();
    await hand.done(next);
    expect(statements().filter((text) => text === "UPDATE onceflow_executions")).toHaveLength(1);
  });

  test("an execution that begins is read once and written once, even if it ends at once, with a note", async () => {
    const { hand, statements } = await watchedPackets(handle(), path);
    statements();
    const execution = await hand.trigger({ claim: true });
    const written = ["SELECT onceflow_executions", "INSERT onceflow_executions"];
    expect(statements().filter((text) => text.includes("executions"))).toEqual(written);
    expect(await countersOf(hand.store, execution)).toEqual([1, 0, 0, false]);
    const failed = await hand.trigger({ failed: '["never"]', letter: null });
    expect(await countersOf(hand.store, failed)).toEqual([0, 0, 0, true]);
    expect(await notesOf(hand.store, failed)).toEqual(["dropped"]);
  });

  test("every statement that a delivery needs uses an index", async () => {
    const { hand, database, all } = await watchedPackets(handle(), path);
    const lane = { name: "lane", deadBlocks: true };
    const execution = await hand.trigger({ key: keyOf("k"), lane });
    const first = await hand.take();
    await hand.send(hand.packet({ key: keyOf("k"), claim: true }), hand.packet({ lane }), hand.packet({ execution, join: partOf("a") }));
    const [bundled] = await hand.send(hand.packet({ claim: true }), hand.packet({ claim: true }));
    await hand.done(bundled?.kind === "claimed" ? bundled.packet : expect.fail());
    await hand.store.packets.packet(1);
    await hand.settle(first, retry());
    await hand.settle(await hand.take(), dead);
    await hand.claim();
    await hand.store.packets.reinject(first.no);
    const next = (await hand.claim()).claimed[0];
    if (next) await hand.settle(next, done);
    await hand.store.packets.leave((await Hand.on(hand.store, 0)).no);
    await Hand.on(hand.store, 0);
    await hand.claim();
    await hand.store.packets.purge(10);
    await hand.store.packets.deadLetters({ limit: 10 });
    await hand.store.packets.executions({ status: "running", limit: 10 });
    const scans = [...all].flatMap((sql) => {
      const plan = database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...values(sql)) as { detail: string }[];
      return plan
        .filter(({ detail }) => /SCAN (onceflow_(packets|records|executions|notes|queues|bundles\w*)|[bg])\b(?! USING)/.test(detail))
        .map(() => sql);
    });
    expect(all.size).toBeGreaterThan(25);
    expect(scans).toEqual([]);
  });

  /** One value for each parameter of the statement; the plan does not depend on them. */
  function values(sql: string): number[] {
    return Array.from(sql.matchAll(/\?/g), () => 1);
  }
});
