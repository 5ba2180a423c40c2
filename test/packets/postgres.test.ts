import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { open } from "onceflow";
import { afterAll, beforeAll, describe, test } from "vitest";
import type { PacketBackend } from "../../src/core/packets/operation.js";
import type { Backend } from "../../src/core/store/store.js";
import { postgresBackend } from "../../src/stores/postgres/backend.js";
import { done, expectAnswer, Hand, partOf, submit } from "../../src/testing/contract/packets/packet-operations.js";
import { poll } from "../kit/poll.js";
import { fc } from "../kit/properties.js";
import { PostgresClock } from "../stores/postgres/clock.js";
import { database, direct, ownPostgres, server } from "../stores/postgres/own-postgres.js";
import { comparing } from "./compared.js";
import { history, Operations } from "./histories.js";

ownPostgres();

describe.skipIf(!server.ok)("PostgreSQL handles packets as the memory store does", { timeout: 240_000 }, () => {
  let backend: Backend;
  let clock: PostgresClock;
  const clear = async () => {
    await direct.query(`TRUNCATE differential.packets, differential.executions, differential.notes, differential.deliveries, differential.execution_attributes, differential.flows, differential.workers,
      differential.records, differential.attempts RESTART IDENTITY`);
  };

  beforeAll(async () => {
    ({ backend, clock } = await PostgresClock.open(database.url));
  });
  afterAll(async () => {
    await backend.close();
    await clock.close();
  });

  test("on 24 random histories", async () => {
    // A failure names its seed: shrinking takes longer than reading it.
    await fc.assert(fc.asyncProperty(history, comparing({ backend, clock, clear })), { numRuns: 24, endOnFailure: true });
  });
});

/** A hundred thousand packets: in lanes, waiting for keys, as parts, dead and kept. */
describe.skipIf(!server.ok)("packets in a large table of PostgreSQL", () => {
  const scans = async () => {
    const { rows } = await direct.query<{ seq_scan: string; idx_scan: string }>(
      "SELECT seq_scan, idx_scan FROM pg_stat_user_tables WHERE schemaname = 'large' AND relname = 'packets'",
    );
    return { sequential: Number(rows[0]?.seq_scan), byIndex: Number(rows[0]?.idx_scan) };
  };

  test("frequent operations never read the whole table", async () => {
    const setUp = await postgresBackend({ url: database.url, schema: "large" });
    await setUp.close();
    await direct.query(`INSERT INTO large.packets (no, flow, queue, state, owner, attempt, since, crashes, due_at, execution, scope, key, lane, place,
        hold, node, port, payload, created_at, dead_name, dead_at, terms)
      SELECT n, 'f', 'q' || n % 7, state, CASE WHEN state = 'due' AND n % 3 = 0 THEN 1000 + n % 5 END, 0, 0, 0,
        CASE WHEN state = 'held' THEN ${Number.MAX_SAFE_INTEGER} ELSE n END, n % 1000,
        CASE WHEN state = 'held' THEN 's' END, CASE WHEN state = 'held' THEN 'k' || n % 500 END, CASE WHEN n % 4 = 0 THEN 'l' || n % 900 END,
        CASE WHEN n % 4 = 0 THEN n END, CASE WHEN state = 'held' THEN 'key' END, CASE WHEN state = 'part' THEN 'n' END,
        CASE WHEN state = 'part' THEN 'a' END, '1', n, CASE WHEN state = 'dead' THEN 'dead' END, CASE WHEN state = 'dead' THEN n END,
        CASE state WHEN 'held' THEN '{"key":{"fingerprint":null,"retentionMs":null,"onMismatch":"acknowledge"}}'
          WHEN 'part' THEN '{"part":{"ports":["a","b"],"waitMs":1}}' END
      FROM generate_series(1, 100000) n, LATERAL (SELECT (ARRAY['due', 'due', 'held', 'part', 'dead', 'kept'])[1 + n % 6] AS state) x`);
    await direct.query("ANALYZE large.packets");
    const before = await scans();

    const backend = await postgresBackend({ url: database.url, schema: "large" });
    const packets = backend.packets as PacketBackend;
    const numbers = new Operations(1_000_000);
    const worker = await packets.join({ leaseMs: 60_000 });
    // The owners of these packets were never registered as workers: their packets are returned to the queue.
    const queues = [0, 1, 2].map((n) => ({ flow: "f", queue: `q${n}`, limit: 20 }));
    const { claimed } = await packets.claim({ worker, queues, limit: 50 });
    assert.ok(claimed.length > 0);
    const plain = { flow: "f", execution: null, payload: "1", key: null, lane: null, join: null, letter: null, delayMs: 0, claim: true };
    const key = { scope: "s", key: "k1", fingerprint: null, retentionMs: null, onMismatch: "acknowledge" as const };
    const lane = { name: "l4", deadBlocks: false };
    const made = [plain, { ...plain, key }, { ...plain, lane }].map((packet) => ({ ...packet, no: numbers.next(), queue: "fresh" }));
    const execution = { no: numbers.next(), flow: "f", entry: "e", input: "1", key: null, retentionMs: 0 };
    const part = {
      ...plain,
      no: numbers.next(),
      queue: "fresh",
      execution: execution.no,
      join: { node: "n", port: "a", ports: ["a", "b"], waitMs: 1 },
    };
    const sends = [...made.map((packet) => [packet]), [part, { ...plain, no: numbers.next(), queue: "fresh", execution: execution.no }]];
    const sent = await packets.flush(
      sends.map((each, i) => ({ verb: "sendPackets", worker, execution: i === 3 ? execution : null, packets: each }) as const),
    );
    const owned = sent
      .flatMap((answer) => (answer !== "again" && "placed" in answer ? answer.placed : []))
      .filter((each) => each.kind === "claimed");
    assert.equal(owned.length, 4);
    const settles = [...owned.map((each) => each.packet), ...claimed].map(({ no, attempt }, i) => {
      const to = i % 2 === 0 ? ({ kind: "done", keep: false, note: null } as const) : ({ kind: "dead", history: null } as const);
      return { verb: "settlePacket", no, worker, attempt, to, packets: [], outputs: [] } as const;
    });
    await packets.flush(settles);
    // An ended execution has nothing in progress, so its packets are not searched.
    assert.deepEqual([await packets.packetsOf(execution.no, 10), (await packets.execution(execution.no))?.open], [[], 0]);
    assert.equal(await packets.reinject(4), true);
    assert.equal(await packets.discard(10), true);
    await packets.deadLetters({ limit: 10 });
    await packets.purge(10);
    await packets.renew(worker, 60_000);
    await packets.leave(worker);
    await backend.close();

    // A connection reports its counts when it ends, so all connections are closed first: any of them may have scanned the table.
    const others =
      "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()";
    await poll(
      60_000,
      async () => ((await direct.query(others)).rows.length === 0 ? true : undefined),
      () => "connections of this store have not ended",
    );
    const after = await scans();
    assert.ok(after.byIndex > before.byIndex + 10);
    assert.equal(after.sequential, before.sequential);
  });
});

describe.skipIf(!server.ok)("packets in PostgreSQL, encrypted", () => {
  test("packets cannot be read in the database, and are unchanged when claimed, joined, sent again, read as a dead letter or as an output", async () => {
    const encryption = { keys: [{ id: "one", key: randomBytes(32) }], required: true };
    const url = new URL(database.url);
    url.searchParams.set("schema", "sealed");
    const store = await open(url.href, { encryption });
    try {
      const hand = await Hand.on(store);
      const payload = '"secret"';
      const execution = hand.execution({ input: payload });
      const of = { execution: execution.no, payload };
      const parts = ["a", "b"].map((port) => hand.packet({ ...of, join: partOf(port), claim: true }));
      const sends = [hand.packet({ ...of, claim: true }), ...parts];
      const sent = await submit(store, hand.sendOf(sends, execution));
      for (const answer of [sent, await submit(store, hand.sendOf(sends, execution))]) {
        const { placed } = expectAnswer(answer, "packetsSent");
        const [first, joined] = placed.flatMap((each) => (each.kind === "claimed" ? [each.packet] : []));
        assert.deepEqual([first?.payload, joined?.payload, joined?.parts?.["a"]?.payload], [payload, payload, payload]);
      }
      const [first, joined] = expectAnswer(sent, "packetsSent").placed.flatMap((each) => (each.kind === "claimed" ? [each.packet] : []));
      assert.ok(first && joined);
      await submit(store, hand.settleOf(first, { kind: "dead", history: payload }));
      await submit(store, hand.settleOf(joined, done, [], [payload]));
      const [letter] = await store.packets.deadLetters({ limit: 1 });
      assert.deepEqual([letter?.payload, letter?.history], [payload, payload]);
      const found = await store.packets.execution(execution.no);
      assert.deepEqual([found?.input, found?.outputs], [payload, [payload]]);
      const { rows } = await direct.query(
        "SELECT (SELECT json_agg(p) FROM sealed.packets p)::text || (SELECT json_agg(e) FROM sealed.executions e)::text AS all",
      );
      assert.ok(rows[0]?.all.length > 0 && !rows[0]?.all.includes("secret"));
    } finally {
      await store.close();
    }
  });
});

describe.skipIf(!server.ok)("the quick statement of packets on PostgreSQL", () => {
  test("a settle of an earlier delivery by the same worker changes and sends nothing", async () => {
    const url = new URL(database.url);
    url.searchParams.set("schema", "quick");
    const store = await open(url.href);
    try {
      const hand = await Hand.on(store);
      const early = await hand.sendAndClaim();
      await hand.settle(early, { kind: "release" });
      const late = await hand.take();
      const output = hand.packet({ queue: "next" });
      await submit(store, hand.settleOf(early, done, [output]));
      assert.equal((await store.packets.packet(late.no))?.attempt, 2);
      assert.equal(await store.packets.packet(output.no), undefined);
      await hand.done(late, output);
      assert.equal(await store.packets.packet(late.no), undefined);
      assert.equal((await store.packets.packet(output.no))?.state, "due");
    } finally {
      await store.close();
    }
  });
});
