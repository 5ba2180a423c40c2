import assert from "node:assert/strict";
import { open, type Store } from "onceflow";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import type { NewPacket } from "../../src/core/packets/operation.js";
import { Hand } from "../../src/testing/contract/packets/packet-operations.js";
import { type FreshDatabase, freshDatabase } from "../servers/postgres/databases.js";

const server = inject("postgres");
const timeout = 120_000;

describe.skipIf(!server.ok)("a send inside a handler's transaction, on PostgreSQL", { timeout }, () => {
  let database: FreshDatabase;
  let store: Store;
  let pool: pg.Pool;
  let hand: Hand;

  beforeAll(async () => {
    database = await freshDatabase(server.ok ? server.url : "");
    store = await open(database.url);
    pool = new pg.Pool({ connectionString: database.url, max: 4 });
    pool.on("error", () => {});
    hand = await Hand.on(store, timeout);
  });
  afterAll(async () => {
    await store.close();
    await pool.end();
    await database.drop();
  });

  const within = (client: pg.PoolClient, flow: string, fields: Partial<NewPacket> = {}) => {
    const packet = hand.packet({ flow, lane: { name: "lane", deadBlocks: false }, ...fields });
    return { no: packet.no, sent: (async () => store.packets.sendWithin?.(client, hand.sendOf([packet])))() };
  };
  const begin = async (mode = "") => {
    const client = await pool.connect();
    await client.query(`BEGIN ${mode}`);
    return client;
  };
  const finish = async (client: pg.PoolClient, how: "COMMIT" | "ROLLBACK") => {
    await client.query(how);
    client.release();
  };
  /** Delivers the packets of a lane until there are none, and returns their numbers in order. */
  const orderOf = async (flow: string) => {
    const order: number[] = [];
    for (;;) {
      const { claimed } = await hand.claim({ queues: [{ flow, queue: "edge", limit: 10 }] });
      if (claimed.length === 0) return order;
      for (const packet of claimed) {
        order.push(packet.no);
        await hand.done(packet);
      }
    }
  };
  const untilWaiting = async (what: "advisory" | "transactionid") => {
    for (;;) {
      const sql = "SELECT FROM pg_stat_activity WHERE wait_event = $1 AND datname = current_database()";
      if ((await pool.query(sql, [what])).rowCount === 1) return;
    }
  };

  test("the second send in a lane waits for the first to commit, and is delivered after it", async () => {
    const [one, two] = [await begin(), await begin()];
    const a = within(one, "order");
    await a.sent;
    const b = within(two, "order");
    await untilWaiting("advisory");
    await finish(one, "COMMIT");
    await b.sent;
    await finish(two, "COMMIT");
    expect(await orderOf("order")).toEqual([a.no, b.no]);
  });

  test("a send that is rolled back leaves nothing, and the next packet goes first", async () => {
    const [one, two] = [await begin(), await begin()];
    await within(one, "undone").sent;
    const b = within(two, "undone");
    await untilWaiting("advisory");
    await finish(one, "ROLLBACK");
    expect(await b.sent).toMatchObject({ kind: "packetsSent", placed: [{ kind: "due" }] });
    await finish(two, "COMMIT");
    expect(await orderOf("undone")).toEqual([b.no]);
  });

  test("packets that are settled in that lane meanwhile wait and wake the lane; other packets continue", async () => {
    const head = await hand.sendAndClaim({ flow: "meanwhile", lane: { name: "lane", deadBlocks: false } });
    const one = await begin();
    const b = within(one, "meanwhile");
    await b.sent;
    let settled = false;
    const settling = hand.done(head).then(() => {
      settled = true;
    });
    // In the same flush, and in later flushes.
    const others = await Promise.all(
      [1, 2, 3].map(() => hand.sendAndClaim({ flow: "other", lane: { name: "other", deadBlocks: false }, queue: `${Math.random()}` })),
    );
    for (const packet of others) await hand.done(packet);
    expect(settled).toBe(false);
    await finish(one, "COMMIT");
    await settling;
    expect(await orderOf("meanwhile")).toEqual([b.no]);
  });

  test("a transaction with an old snapshot is refused if its packet has a lane, and accepted otherwise", async () => {
    const one = await begin("ISOLATION LEVEL REPEATABLE READ");
    await expect(within(one, "old").sent).rejects.toThrow(/READ COMMITTED.*REPEATABLE READ/);
    await finish(one, "ROLLBACK");
    const two = await begin("ISOLATION LEVEL REPEATABLE READ");
    expect(await within(two, "old", { lane: null }).sent).toMatchObject({ kind: "packetsSent" });
    await finish(two, "COMMIT");
    expect(await orderOf("old")).toHaveLength(1);
  });

  test("it cannot claim its packets", async () => {
    const one = await begin();
    await expect(within(one, "claiming", { claim: true }).sent).rejects.toThrow(/claimed/);
    await finish(one, "ROLLBACK");
  });

  test("of two triggers with one key in two concurrent transactions, one begins an execution and the other one gets its id", async () => {
    const [one, two] = [await begin(), await begin()];
    const key = { scope: "", key: "trigger", fingerprint: null, retentionMs: null };
    const executions = [hand.execution({ key }), hand.execution({ key })] as const;
    const sends = executions.map((execution) => hand.sendOf([hand.packet({ execution: execution.no, flow: "triggered" })], execution));
    assert.ok(sends[0] && sends[1]);
    expect(await store.packets.sendWithin?.(one, sends[0])).toMatchObject({ kind: "packetsSent" });
    const other = store.packets.sendWithin?.(two, sends[1]);
    // This transaction has seen no such key and is about to write one.
    await untilWaiting("transactionid");
    await finish(one, "COMMIT");
    expect(await other).toEqual({ kind: "triggered", execution: executions[0].no, mismatch: false });
    await finish(two, "COMMIT");
    expect(await orderOf("triggered")).toHaveLength(1);
  });
});
