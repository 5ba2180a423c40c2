import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { open } from "onceflow";
import { afterAll, beforeAll, describe, test } from "vitest";
import type { PacketBackend, PacketClaims, PacketOperation } from "../../src/core/packets/operation.js";
import type { PacketRecord } from "../../src/core/packets/packet.js";
import type { Backend } from "../../src/core/store/store.js";
import { createMemoryLedger, type MemoryLedger, memoryBackend } from "../../src/stores/memory/backend.js";
import { postgresBackend } from "../../src/stores/postgres/backend.js";
import { beginOf, completed } from "../../src/testing/contract/ledger/operations.js";
import { done, expectAnswer, Hand, partOf, submit } from "../../src/testing/contract/packets/packet-operations.js";
import { poll } from "../kit/poll.js";
import { fc } from "../kit/properties.js";
import { PostgresClock } from "../stores/postgres/clock.js";
import { database, direct, ownPostgres, server } from "../stores/postgres/own-postgres.js";
import { history, Numbers, nth, queryOf, type Step } from "./histories.js";

ownPostgres();

/**
 * Random histories on PostgreSQL and on the memory store, which defines each verb. PostgreSQL gets the test's
 * clock, so that answers, packets, executions, notes and keys have to be equal to the millisecond.
 */
describe.skipIf(!server.ok)("PostgreSQL handles packets as the memory store does", { timeout: 240_000 }, () => {
  let backend: Backend;
  let clock: PostgresClock;
  let packets: PacketBackend;

  beforeAll(async () => {
    ({ backend, clock } = await PostgresClock.open(database.url));
    assert.ok(backend.packets);
    packets = backend.packets;
  });
  afterAll(async () => {
    await backend.close();
    await clock.close();
  });

  const byNumber = (a: { no: number }, b: { no: number }) => a.no - b.no;
  const sorted = ({ claimed, closed, ended, resting, ...rest }: PacketClaims) => ({
    ...rest,
    claimed: [...claimed].sort(byNumber),
    closed: [...closed].sort(byNumber),
    ended: [...ended].sort(byNumber),
    resting: [...resting].sort(),
  });

  /** The time of a part that this claim has closed may be among the times it saw before: polling too early costs only a poll. */
  function nextOf(theirs: PacketClaims, ours: PacketClaims): number | null {
    const closes = theirs.closed.some(({ to, note }) => to === "closed" || note === "joinClosed");
    const early = theirs.nextAt !== null && theirs.nextAt > theirs.now && theirs.nextAt < (ours.nextAt ?? Number.POSITIVE_INFINITY);
    return closes && early ? ours.nextAt : theirs.nextAt;
  }

  function rowsOf(operation: PacketOperation): number[] {
    const sent = operation.packets.map(({ no }) => no);
    if (operation.verb === "settlePacket") return [operation.no, ...sent];
    return operation.execution === null ? sent : [operation.execution.no, ...sent];
  }

  /**
   * Packets that a claim acknowledges may release others. One of those may be claimed before or after another packet with its key
   * that was due all along, and the first one gets the key.
   */
  function differInTurn(theirs: PacketClaims, ours: PacketClaims): boolean {
    const only = (these: PacketClaims, those: PacketClaims) =>
      these.claimed.filter(({ no }) => !those.claimed.some((other) => other.no === no)).map(({ key }) => key && `${key.scope} ${key.key}`);
    const [mine, yours] = [only(theirs, ours), only(ours, theirs)];
    return ours.closed.length > 0 && mine.length > 0 && !mine.includes(null) && `${mine.sort()}` === `${yours.sort()}`;
  }

  async function play(steps: readonly Step[]): Promise<void> {
    await direct.query(`TRUNCATE differential.packets, differential.executions, differential.notes, differential.flows, differential.workers,
      differential.records, differential.attempts RESTART IDENTITY`);
    await clock.set(1_000_000);
    const ledger = createMemoryLedger(() => clock.now());
    const model = memoryBackend(ledger).packets as PacketBackend;
    const { table } = ledger.packets;
    const numbers = new Numbers();
    const begun = new Set<number>();
    const both = async <T>(verb: (of: PacketBackend) => Promise<T>, seen: (answer: T) => unknown = (answer) => answer) => {
      const theirs = await verb(packets);
      assert.deepEqual(seen(theirs), seen(await verb(model)));
    };
    const all = (): PacketRecord[] => [...table.packets.values()];
    const worker = (n: number) => nth([...table.workers.keys()], n) ?? 99;
    for (const _ of [1, 2]) await both((of) => of.join({ leaseMs: 10_000 }));
    for (const [i, one] of steps.entries()) {
      await clock.pass(1);
      if ("pass" in one) await clock.pass(one.pass);
      else if ("purge" in one) await both((of) => of.purge(one.purge));
      else if ("renew" in one) await both((of) => of.renew(worker(one.renew), 10_000));
      else if ("leave" in one) await both((of) => of.leave(worker(one.leave)));
      else if ("join" in one) await both((of) => of.join({ leaseMs: one.join }));
      else if ("state" in one) await both((of) => of.setFlowState(one.flow, one.state));
      else if ("ledger" in one) await interfere(ledger, one);
      else if ("claim" in one) {
        const query = queryOf(worker(one.claim.worker), one.claim);
        const [theirs, ours] = [await packets.claim(query), await model.claim(query)];
        // From here on the stores may differ, and both are right.
        if (differInTurn(theirs, ours)) return;
        assert.deepEqual(sorted({ ...theirs, nextAt: nextOf(theirs, ours) }), sorted(ours));
      } else if ("reinject" in one || "discard" in one) {
        const [n, verb] = "reinject" in one ? [one.reinject, "reinject" as const] : [one.discard, "discard" as const];
        const dead = all().filter(({ state }) => state === "dead");
        const no = nth(n % 5 === 0 ? all() : dead, n)?.no ?? 1;
        const alert = n % 2 === 0 ? numbers.alert() : undefined;
        await both((of) => (verb === "reinject" ? of.reinject(no, alert) : of.discard(no)));
      } else {
        const there = {
          owned: all().filter(({ owner }) => owner !== null),
          executions: [...table.executions.keys()],
          workers: [...table.workers.keys()],
        };
        const operations = one.flush.map((asked) => numbers.operation(asked, there)).filter((operation) => operation !== undefined);
        for (const no of there.executions) begun.add(no);
        // One operation per packet: the order of two is not defined.
        const taken = new Set<number>();
        const alone = operations.filter((operation) => {
          const about = rowsOf(operation);
          // A trigger whose execution has ended and was removed is not sent again.
          if (about.some((no) => taken.has(no) || (begun.has(no) && !table.executions.has(no)))) return false;
          for (const no of about) taken.add(no);
          return true;
        });
        if (alone.length > 0) await both((of) => of.flush(alone));
      }
      // Not after every step, because it takes as long as some of them; a difference is found a little later.
      if (i % 6 === 5 || i === steps.length - 1) await expectEqual(model, [...table.packets.keys()], [...table.executions.keys()]);
    }
    await expectLedgersEqual(memoryBackend(ledger));
  }

  /** A caller other than packets begins or settles a key. */
  async function interfere(ledger: MemoryLedger, { ledger: how, key }: Extract<Step, { ledger: string }>): Promise<void> {
    const id = { scope: "s", key };
    const model = memoryBackend(ledger);
    const { owner = "another caller", attempt = 1 } = (await model.read(id))?.record ?? {};
    const to = how === "settle" ? completed(1) : ({ state: "free" } as const);
    const operation =
      how === "begin"
        ? beginOf({ ...id, leaseMs: 700, owner: "another caller" })
        : ({ verb: "settle", ...id, owner, attempt, to, note: null } as const);
    for (const each of [backend, model]) await each.flush([operation]);
  }

  async function expectEqual(model: PacketBackend, nos: readonly number[], executions: readonly number[]): Promise<void> {
    const look = async (of: PacketBackend) => ({
      packets: (await Promise.all(executions.slice(-2).map((no) => of.packetsOf(no, 100)))).map((each) => [...each].sort(byNumber)),
      some: await Promise.all(nos.slice(-2).map((no) => of.packet(no))),
      dead: await of.deadLetters({ limit: 100 }),
      some_dead: await of.deadLetters({ flow: "f", name: "dead", limit: 2, before: { at: clock.now(), no: 20 } }),
      executions: await of.executions({ limit: 100 }),
      page: await of.executions({ flow: "f", status: "running", limit: 2 }),
      // Packets that one claim acknowledges have the same time, and no order among each other.
      notes: (await Promise.all(executions.slice(-3).map((no) => of.notes(no, 1000)))).map((notes) =>
        [...notes].sort((a, b) => a.at - b.at || a.packet - b.packet),
      ),
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

  test("on 24 random histories", async () => {
    // A failure names its seed: shrinking takes longer than reading it.
    await fc.assert(fc.asyncProperty(history, play), { numRuns: 24, endOnFailure: true });
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
    const numbers = new Numbers(1_000_000);
    const worker = await packets.join({ leaseMs: 60_000 });
    // These workers were never registered: their packets are returned to the queue.
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

    // A connection reports its counts when it has ended: all are closed, because any of them may have scanned the table.
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
  test("packets cannot be read in the database, and are unchanged when claimed, joined, found again, a dead letter or an output", async () => {
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
