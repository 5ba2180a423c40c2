import assert from "node:assert/strict";
import type { DeliveryEntry, NewDeliveryEntry } from "../../../core/packets/delivery-entry.js";
import type { PacketOutcome } from "../../../core/packets/operation.js";
import type { PacketRecord } from "../../../core/packets/packet.js";
import type { ContractGroup } from "../contract-case.js";
import { shortMs } from "../ledger/scene.js";
import { handOf, packetCase, reach, timeOf, unchanged } from "./packet-case.js";
import { dead, done, expectAnswer, Hand, kept, keyOf, release, retry, submit } from "./packet-operations.js";

const entry: NewDeliveryEntry = {
  node: "Charge",
  startedAt: 1_700_000_000_000,
  ms: 12,
  code: null,
  joined: [],
  details: '{"input":"ü\\u0000"}',
  entriesMax: 100,
};

/** Settles a packet with an entry and returns the time of the commit. */
async function settled(hand: Hand, packet: PacketRecord, to: PacketOutcome, fields: Partial<NewDeliveryEntry> = {}): Promise<number> {
  const answer = await submit(hand.store, { ...hand.settleOf(packet, to), entry: { ...entry, ...fields } });
  return expectAnswer(answer, "packetSettled").now;
}

/** Through JSON, because encrypted fields are decrypted only when they are read. */
async function entriesOf(hand: Hand, execution: number): Promise<DeliveryEntry[]> {
  const entries = await hand.store.packets.deliveries({ execution, limit: 1000 });
  return entries.map(
    ({ packet, queue, node, attempt, verdict, at, startedAt, ms, code, sent, joined, details }) =>
      JSON.parse(
        JSON.stringify({ execution, packet, queue, node, attempt, verdict, at, startedAt, ms, code, sent, joined, details }),
      ) as DeliveryEntry,
  );
}

async function verdictsOf(hand: Hand, execution: number): Promise<string[]> {
  return (await entriesOf(hand, execution)).map(({ attempt, verdict }) => `${attempt} ${verdict}`);
}

export const recording: ContractGroup = {
  verb: "history",
  cases: [
    packetCase("a settle with an entry adds it to the history of the execution", async (scene) => {
      const hand = await handOf(scene);
      const execution = await hand.trigger({});
      const packet = await hand.take();
      const sent = [hand.packet({ execution, queue: "next" }), hand.packet({ execution, queue: "other" }), hand.packet()];
      const settle = { ...hand.settleOf(packet, done, sent), entry: { ...entry, code: "TEMPORARY", joined: [7, 8] } };
      const { now } = expectAnswer(await submit(hand.store, settle), "packetSettled");
      const { entriesMax: _, ...written } = settle.entry;
      const links = { sent: sent.slice(0, 2).map(({ no }) => no), joined: [7, 8] };
      assert.deepEqual(await entriesOf(hand, execution), [
        { execution, packet: packet.no, queue: "edge", attempt: 1, verdict: "completed", at: now, ...written, ...links },
      ]);
    }),

    packetCase(
      "a chain of deliveries with one packet each is recorded, also of packets claimed in the commit that sends them",
      async (scene) => {
        const hand = await handOf(scene);
        const execution = await hand.trigger({});
        let packet = await hand.take();
        const numbers: number[] = [];
        for (let i = 0; i < 3; i++) {
          numbers.push(packet.no);
          const next = hand.packet({ execution, claim: true, queue: `edge ${i}` });
          const answer = await submit(hand.store, { ...hand.settleOf(packet, done, [next]), entry });
          const [placed] = expectAnswer(answer, "packetSettled").placed;
          assert.ok(placed?.kind === "claimed");
          packet = placed.packet;
        }
        await hand.done(packet);
        const entries = await entriesOf(hand, execution);
        assert.deepEqual(
          entries.map((each) => [each.packet, each.queue, each.verdict]),
          numbers.map((no, i) => [no, i === 0 ? "edge" : `edge ${i - 1}`, "completed"]),
        );
        assert.deepEqual(
          entries.map(({ sent }) => sent),
          [...numbers.slice(1), packet.no].map((no) => [no]),
        );
      },
    ),

    packetCase("the verdict is that of the commit", async (scene) => {
      const hand = await handOf(scene);
      const verdicts: string[] = [];
      for (const [to, fields] of [
        [retry(), {}],
        [dead, {}],
        [dead, { letter: null }],
        [done, { key: keyOf("k") }],
        [kept, {}],
        [{ kind: "done", keep: false, note: "skipped" }, {}],
        [{ kind: "done", keep: false, note: "restarted" }, {}],
        [{ kind: "done", keep: false, note: "unrouted" }, {}],
      ] as const) {
        const execution = await hand.trigger({ ...fields, claim: true });
        const [packet] = await hand.store.packets.packetsOf(execution, 1);
        assert.ok(packet);
        await settled(hand, packet, to);
        verdicts.push((await verdictsOf(hand, execution)).join());
      }
      assert.deepEqual(verdicts, [
        ...["1 retry", "1 dead", "1 dropped", "1 completed", "1 completed", "1 skipped", "1 restarted", "1 completed"],
      ]);
    }),

    packetCase("each attempt has its own entry; a release and a trial have none", async (scene) => {
      const hand = await handOf(scene);
      const execution = await hand.trigger({});
      await settled(hand, await hand.take(), retry(), { code: "TEMPORARY" });
      await settled(hand, await hand.take(), { kind: "trial", history: "[]" });
      const [packet] = await hand.store.packets.packetsOf(execution, 1);
      assert.ok(packet);
      await settled(hand, packet, release);
      await settled(hand, await hand.take(), done);
      assert.deepEqual(await verdictsOf(hand, execution), ["1 retry", "3 completed"]);
    }),

    packetCase("a settle without an entry, and one of a packet without an execution, write no history", async (scene) => {
      const hand = await handOf(scene);
      const execution = await hand.trigger({});
      await hand.done(await hand.take());
      await settled(hand, await hand.sendAndClaim(), done);
      assert.deepEqual(await entriesOf(hand, execution), []);
      assert.deepEqual(await hand.store.packets.deliveries({ limit: 10 }), []);
    }),

    packetCase("a settle that is sent again is recorded once; a late settle is not recorded", async (scene) => {
      const [late, next] = [await Hand.on(await scene.store(), shortMs), await handOf(scene)];
      const execution = await late.trigger({});
      const settle = { ...late.settleOf(await late.take(), retry()), entry };
      for (const _ of [1, 2]) await submit(late.store, settle);
      const packet = await late.take();
      await reach(scene, next, (await timeOf(next)) + shortMs + 1);
      const again = await next.take();
      const stale = { ...late.settleOf(packet, done), entry };
      assert.deepEqual(await unchanged(next.store, () => submit(late.store, stale)), { kind: "packetStale" });
      await settled(next, again, done);
      assert.deepEqual(await verdictsOf(next, execution), ["1 retry", "3 completed"]);
    }),

    packetCase("an attempt whose worker is silent is noted when another worker takes the packet over", async (scene) => {
      const [late, next] = [await Hand.on(await scene.store(), shortMs), await handOf(scene)];
      const execution = await late.trigger({}, {});
      const { claimed } = await late.claim();
      const alone = await late.sendAndClaim({ queue: "without an execution" });
      await reach(scene, next, (await timeOf(next)) + shortMs + 1);
      assert.equal((await next.claim()).claimed.length, 2);
      const notes = await next.store.packets.notes(execution, 10);
      assert.deepEqual(
        notes.map(({ kind, queue, packet, about }) => [kind, queue, packet, about]).sort(),
        claimed.map(({ no, queue }) => ["crashed", queue, no, "1"]).sort(),
      );
      assert.equal((await next.store.packets.packet(alone.no))?.crashes, 1);
    }),

    packetCase("a full history says so in one entry", async (scene) => {
      const hand = await handOf(scene);
      const execution = await hand.trigger({}, {}, {}, {}, {});
      const { claimed } = await hand.claim();
      for (const packet of claimed) await settled(hand, packet, done, { entriesMax: 2, code: "X", joined: [1] });
      const entries = await entriesOf(hand, execution);
      assert.deepEqual(entries.map(({ verdict }) => verdict).sort(), ["completed", "completed", "full"]);
      const { code, sent, joined, details } = entries.find(({ verdict }) => verdict === "full") ?? assert.fail();
      assert.deepEqual([code, sent, joined, details], [null, [], [], null]);
    }),

    packetCase("entries of several packets in one flush are all recorded", async (scene) => {
      const hand = await handOf(scene);
      const execution = await hand.trigger({}, {}, {}, {});
      const { claimed } = await hand.claim();
      await Promise.all(claimed.map((packet) => settled(hand, packet, done, { entriesMax: 3 })));
      const verdicts = (await entriesOf(hand, execution)).map(({ verdict }) => verdict);
      assert.deepEqual(verdicts.sort(), ["completed", "completed", "completed", "full"]);
    }),

    packetCase("entries are read in order, in pages, and by packet", async (scene) => {
      const hand = await handOf(scene);
      const execution = await hand.trigger({}, {}, {});
      const { claimed } = await hand.claim();
      const [first] = claimed;
      assert.ok(first);
      for (const packet of claimed) await settled(hand, packet, retry());
      for (const packet of (await hand.claim()).claimed) await settled(hand, packet, done);
      const all = await hand.store.packets.deliveries({ execution, limit: 100 });
      assert.equal(all.length, 6);
      const paged: unknown[] = [];
      for (let after: DeliveryEntry | undefined; ; ) {
        const page = await hand.store.packets.deliveries({ execution, limit: 4, ...(after && { after }) });
        paged.push(...page.map(({ packet, attempt }) => [packet, attempt]));
        after = page.at(-1);
        if (after === undefined) break;
      }
      assert.deepEqual(
        paged,
        all.map(({ packet, attempt }) => [packet, attempt]),
      );
      const own = await hand.store.packets.deliveries({ packets: [first.no, 1], limit: 100 });
      assert.deepEqual(
        own.map(({ packet, attempt, execution: of }) => [packet, attempt, of]),
        [
          [first.no, 1, execution],
          [first.no, 2, execution],
        ],
      );
      const none = await hand.store.packets.deliveries({ execution: execution + 1, packets: [first.no], limit: 100 });
      assert.deepEqual(none, []);
    }),

    packetCase("a packet in memory is recorded as its process describes it", async (scene) => {
      const hand = await handOf(scene);
      const execution = await hand.trigger({});
      const packet = await hand.take();
      await settled(hand, packet, done, { memory: { queue: "A->B", attempt: 3, verdict: "dead" } });
      const [{ queue, attempt, verdict, details } = assert.fail()] = await entriesOf(hand, execution);
      assert.deepEqual([queue, attempt, verdict, details], ["A->B", 3, "dead", entry.details]);
    }),

    packetCase("the history is kept as long as its execution", async (scene) => {
      const hand = await handOf(scene);
      const short = hand.execution({ retentionMs: 0 });
      await hand.begin(short, { claim: true });
      const long = await hand.trigger({ claim: true });
      for (const no of [short.no, long]) {
        const [packet] = await hand.store.packets.packetsOf(no, 1);
        assert.ok(packet);
        await settled(hand, packet, done);
      }
      assert.equal((await hand.store.packets.deliveries({ limit: 10 })).length, 2);
      await scene.until("the execution is purged", async () => {
        await hand.store.packets.purge(100);
        return (await hand.store.packets.execution(short.no)) === undefined;
      });
      assert.deepEqual(await entriesOf(hand, short.no), []);
      assert.equal((await entriesOf(hand, long)).length, 1);
    }),
  ],
};
