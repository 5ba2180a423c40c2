import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { open, type Store } from "onceflow";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import type { PacketBackend } from "../dist/core/packet-operation.js";
import { chooseDriver, openDatabase, type SqliteDatabase, type SqliteStatement } from "../dist/stores/sqlite/driver.js";
import { OwnTransactions } from "../dist/stores/sqlite/own-transactions.js";
import { createPackets } from "../dist/stores/sqlite/packets.js";
import { prepareOnce } from "../dist/stores/sqlite/prepared.js";
import { RecordStatements } from "../dist/stores/sqlite/record-statements.js";
import { migrate } from "../dist/stores/sqlite/schema.js";
import { dead, done, Hand, keyOf, partOf, retry, submit } from "../dist/testing/contract/packets/packet-operations.js";

let path = "";

beforeEach(() => {
  const folder = mkdtempSync(join(tmpdir(), "onceflow-packets-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
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

  // A number that was given in a transaction that was undone is the next queue's, whoever makes that.
  test("a queue that was named in a flush that was refused is not taken for another one", async () => {
    const [hand, other] = [await handOn(), await handOn()];
    const poison = hand.sendOf([hand.packet({ queue: "mine" }), hand.packet({ payload: '"\0"' })]);
    await expect(submit(hand.store, poison)).rejects.toThrow(/NUL/);
    await other.send(other.packet({ queue: "other's" }));
    await hand.send(hand.packet({ queue: "mine" }));
    expect((await other.take("other's")).queue).toBe("other's");
    expect((await other.take("mine")).queue).toBe("mine");
  });

  test("a packet that cannot be kept fails alone, and nothing of its send is written", async () => {
    const hand = await handOn();
    const [good, bad] = [hand.packet(), hand.packet({ lane: { name: "a\0b", deadBlocks: false } })];
    const answers = await Promise.allSettled([hand.send(good), hand.send(hand.packet(), bad)]);
    expect(answers.map(({ status }) => status)).toEqual(["fulfilled", "rejected"]);
    expect((await hand.claim()).claimed.map(({ no }) => no)).toEqual([good.no]);
  });

  test("what is sent in a transaction cannot be claimed in it", async () => {
    const hand = await handOn();
    const { store } = hand;
    const send = hand.sendOf([hand.packet({ claim: true })]);
    await expect(store.transact(async (tx) => await store.packets.sendWithin?.(tx, send))).rejects.toThrow(/rolled back/);
  });

  test("a ledger of schema version 4 can keep packets when it is opened, and has kept what it had", async () => {
    const old = handle();
    migrate(old, path);
    const tables = old.prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'onceflow_%'").all() as {
      name: string;
    }[];
    const known = ["records", "attempts", "audit", "runs", "journal", "mail", "hooks", "chunks", "schema"].map(
      (name) => `onceflow_${name}`,
    );
    for (const { name } of tables) if (!known.includes(name)) old.exec(`DROP TABLE ${name}`);
    old.exec("DELETE FROM onceflow_schema WHERE version = 5; INSERT INTO onceflow_hooks VALUES (1, 'token', 1, 'about', NULL, 1)");
    const hand = await handOn();
    await hand.send(hand.packet());
    await hand.take();
    expect(old.prepare("SELECT max(version) AS version FROM onceflow_schema").get()).toEqual({ version: 5 });
    expect(old.prepare("SELECT count(*) AS hooks FROM onceflow_hooks").get()).toEqual({ hooks: 1 });
  });

  test("a row that is remembered is not taken for what it has become elsewhere", async () => {
    const [hand, other] = [await handOn(), await handOn()];
    const packet = await hand.sendAndClaim();
    // The same worker, on another handle: this one has not heard of it.
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
  interface Watched {
    readonly hand: Hand;
    readonly database: SqliteDatabase;
    /** Statements since the last look, by their first words. */
    readonly said: () => string[];
    readonly all: Set<string>;
  }

  async function watched(): Promise<Watched> {
    const database = handle();
    migrate(database, path);
    const all = new Set<string>();
    let said: string[] = [];
    const note = (sql: string, statement: SqliteStatement): SqliteStatement => {
      const noted =
        <A extends unknown[], R>(method: (...values: A) => R) =>
        (...values: A): R => {
          all.add(sql);
          said.push(sql.replace(/\s+/g, " "));
          return method.apply(statement, values);
        };
      return { run: noted(statement.run), get: noted(statement.get), all: noted(statement.all) };
    };
    const watching = { prepare: (sql: string) => note(sql, database.prepare(sql)) };
    const sql = prepareOnce(watching);
    const records = new RecordStatements(watching);
    const inTurn = async <T>(work: () => T) => work();
    const none = { watch: () => () => {}, tell: () => {}, close: () => {} };
    const packets: PacketBackend = createPackets({
      sql,
      records,
      transactions: new OwnTransactions(database),
      watching: none,
      writing: inTurn,
      reading: inTurn,
    });
    const commit = async ({ packet }: { packet: Parameters<PacketBackend["flush"]>[0][number] }) => (await packets.flush([packet]))[0];
    const store = { packets, commit } as unknown as Store;
    const look = () => {
      const since = said.filter((text) => !text.includes("julianday"));
      said = [];
      return since.map((text) => text.replace(/^(\w+) .*?(onceflow_\w+).*$/, "$1 $2"));
    };
    return { hand: await Hand.on(store), database, said: look, all };
  }

  test("a hop deletes the row that its fence names and inserts one; the flow is looked at once", async () => {
    const { hand, said } = await watched();
    const execution = await hand.trigger({});
    const first = await hand.take();
    said();
    const { placed } = await hand.done(first, hand.packet({ execution, claim: true }));
    expect(said()).toEqual(["DELETE onceflow_packets", "SELECT onceflow_flows", "INSERT onceflow_packets"]);
    const next = placed[0]?.kind === "claimed" ? placed[0].packet : expect.fail();
    await hand.done(next);
    expect(said().filter((text) => text === "UPDATE onceflow_executions")).toHaveLength(1);
  });

  test("every statement that a delivery needs is answered by an index", async () => {
    const { hand, database, all } = await watched();
    const lane = { name: "lane", deadBlocks: true };
    const execution = await hand.trigger({ key: keyOf("k"), lane });
    const first = await hand.take();
    await hand.send(hand.packet({ key: keyOf("k"), claim: true }), hand.packet({ lane }), hand.packet({ execution, join: partOf("a") }));
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
      return plan.filter(({ detail }) => /SCAN onceflow_(packets|records|executions|notes|queues)(?! USING)/.test(detail)).map(() => sql);
    });
    expect(all.size).toBeGreaterThan(25);
    expect(scans).toEqual([]);
  });

  /** As many as it binds; a plan does not look at them. */
  function values(sql: string): number[] {
    return Array.from(sql.matchAll(/\?/g), () => 1);
  }
});
