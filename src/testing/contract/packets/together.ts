import assert from "node:assert/strict";
import type { NewPacket, Placed } from "../../../core/packets/operation.js";
import type { PacketRecord } from "../../../core/packets/packet.js";
import type { ContractGroup } from "../contract-case.js";
import { type Scene, shortMs } from "../ledger/scene.js";
import { handOf, packetCase, reach, timeOf, unchanged } from "./packet-case.js";
import {
  countersOf,
  dead,
  done,
  flow,
  Hand,
  kindsOf,
  numbersOf,
  packetMembers,
  packetOf,
  queue,
  release,
  retry,
  submit,
} from "./packet-operations.js";

/** Packets that were sent and claimed in one commit: a store may keep them in one row. */
async function sentTogether(hand: Hand, length: number, fields: Partial<NewPacket> = {}): Promise<PacketRecord[]> {
  return claimedOf(await hand.send(...Array.from({ length }, () => hand.packet({ ...fields, claim: true }))));
}

function claimedOf(placed: readonly Placed[]): PacketRecord[] {
  return placed.map((each) => (each.kind === "claimed" ? each.packet : assert.fail(`placed ${JSON.stringify(each)}`)));
}

/** Packets of a worker that settled the first two, and then let its lease expire or left. */
async function partlySettled(scene: Scene, leaseMs?: number) {
  const [hand, next] = [await Hand.on(await scene.store(), leaseMs), await handOf(scene)];
  const packets = await sentTogether(hand, 5);
  for (const packet of packets.slice(0, 2)) await hand.done(packet);
  return { hand, next, gone: packets.slice(0, 2), left: packets.slice(2) };
}

async function countsOf({ store }: Hand): Promise<unknown> {
  const counts = await store.packets.counts();
  return counts.filter((of) => of.due + of.held + of.parts + of.owned + of.dead > 0);
}

const none = { due: 0, held: 0, parts: 0, owned: 0, dead: 0 };

export const together: ContractGroup = {
  verb: "together",
  cases: [
    packetCase("from a worker that fell silent, others claim the packets that it had not settled, and no others", async (scene) => {
      const { hand, next, gone, left } = await partlySettled(scene, shortMs);
      await reach(scene, next, (await timeOf(next)) + shortMs + 1);
      const { claimed } = await next.claim();
      assert.deepEqual(numbersOf(claimed).sort(), numbersOf(left).sort());
      for (const { attempt, crashes, since, owner } of claimed) assert.deepEqual([attempt, crashes, since, owner], [2, 1, 0, next.no]);
      for (const packet of [...gone, ...left]) {
        const late = await unchanged(next.store, () => submit(hand.store, hand.settleOf(packet, done, [hand.packet()])));
        assert.equal(late.kind, "packetStale");
      }
      for (const packet of claimed) await next.done(packet);
      assert.deepEqual(await countsOf(next), []);
    }),

    packetCase("from a worker that leaves, others claim the packets that it had not settled, and no others", async (scene) => {
      const { hand, next, left } = await partlySettled(scene);
      await hand.store.packets.leave(hand.no);
      const { claimed } = await next.claim();
      assert.deepEqual(numbersOf(claimed).sort(), numbersOf(left).sort());
      for (const { attempt, crashes, since } of claimed) assert.deepEqual([attempt, crashes, since], [2, 0, 1]);
      for (const packet of claimed) await next.done(packet);
      assert.deepEqual(await countsOf(next), []);
    }),

    packetCase("one is retried, one dead, one handed back, one kept: the other packets are not changed", async (scene) => {
      const hand = await handOf(scene);
      const other = await scene.open();
      const execution = await hand.trigger({ queue: "another" });
      const [first, second, third, fourth, ...rest] = await sentTogether(hand, 6, { execution });
      assert.ok(first && second && third && fourth);
      await hand.settle(first, retry(0, '["again"]'));
      await hand.settle(second, dead);
      await hand.settle(third, release);
      await hand.settle(fourth, { kind: "done", keep: true, note: null });
      for (const packet of rest) assert.deepEqual(await packetOf(other, packet.no), packetMembers(packet));
      assert.deepEqual(await countersOf(other, execution), [5, 0, 1, false]);
      const again = (await hand.claim()).claimed;
      const facts = again.map(({ no, attempt, since, history, crashes }) => [no, attempt, since, history, crashes]);
      assert.deepEqual(
        facts.sort((a, b) => Number(a[0]) - Number(b[0])),
        [
          [first.no, 2, 0, '["again"]', 0],
          [third.no, 2, 1, null, 0],
        ],
      );
      assert.equal((await packetOf(other, second.no)).state, "dead");
      assert.equal((await packetOf(other, fourth.no)).state, "kept");
      for (const packet of [...again, ...rest, await hand.take("another")]) await hand.done(packet);
      assert.deepEqual(await countersOf(other, execution), [0, 0, 1, true]);
      assert.deepEqual(await countsOf(hand), [{ flow, queue, ...none, dead: 1 }]);
    }),

    packetCase("settled on several handles, in any order: each packet is removed once, and the others stay", async (scene) => {
      const hand = await handOf(scene);
      const elsewhere = new Hand(await scene.open(), hand.no);
      const packets = await sentTogether(hand, 12);
      for (const [i, packet] of packets.entries()) {
        const by = [hand, elsewhere][i % 2] as Hand;
        await by.done(packet);
        const again = await unchanged(hand.store, () => submit(hand.store, hand.settleOf(packet, done)));
        assert.equal(again.kind, "packetSettled");
        for (const { store } of [hand, elsewhere]) {
          const there = await Promise.all(packets.map(async ({ no }) => (await store.packets.packet(no)) !== undefined));
          assert.deepEqual(
            there,
            packets.map((_, at) => at > i),
          );
        }
      }
      assert.deepEqual(await countsOf(hand), []);
    }),

    packetCase("a packet that was retried elsewhere is not settled by its earlier attempt", async (scene) => {
      const hand = await handOf(scene);
      const elsewhere = new Hand(await scene.open(), hand.no);
      const [packet, other] = await sentTogether(hand, 2);
      assert.ok(packet && other);
      await elsewhere.settle(packet, retry());
      const again = await elsewhere.take();
      assert.deepEqual([again.no, again.attempt], [packet.no, 2]);
      await unchanged(hand.store, () => submit(hand.store, hand.settleOf(packet, done, [hand.packet()])));
      for (const each of [again, other]) await hand.done(each);
      assert.deepEqual(await countsOf(elsewhere), []);
    }),

    packetCase("sent again, the packets are recognised, and settled ones are not sent twice", async (scene) => {
      const hand = await handOf(scene);
      const send = hand.sendOf(Array.from({ length: 4 }, () => hand.packet({ claim: true })));
      const sent = await submit(hand.store, send);
      const [first] = claimedOf(sent.kind === "packetsSent" ? sent.placed : assert.fail());
      await hand.done(first as PacketRecord);
      for (const store of [hand.store, await scene.open()]) {
        const again = await unchanged(store, () => submit(store, send));
        assert.deepEqual(again.kind === "packetsSent" && kindsOf(again.placed), ["duplicate", "claimed", "claimed", "claimed"]);
      }
    }),

    packetCase("views show them like all other packets, even when some are settled", async (scene) => {
      const hand = await handOf(scene);
      const other = await scene.open();
      const execution = await hand.trigger({ claim: true, queue: "one" }, { claim: true, queue: "two" }, { claim: true, queue: "two" }, {});
      const all = await other.packets.packetsOf(execution, 10);
      assert.deepEqual(
        all.map((packet) => [packet.queue, packet.owner, packet.attempt, packet.state]).sort(),
        [
          [queue, null, 0, "due"],
          ["one", hand.no, 1, "due"],
          ["two", hand.no, 1, "due"],
          ["two", hand.no, 1, "due"],
        ].sort(),
      );
      for (const packet of all) assert.deepEqual(await packetOf(other, packet.no), packetMembers(packet));
      assert.equal((await other.packets.packetsOf(execution, 2)).length, 2);
      const one = all.find((packet) => packet.queue === "two") ?? assert.fail();
      await hand.done(one);
      const left = (await other.packets.packetsOf(execution, 10)).map(({ no }) => no);
      assert.deepEqual(
        left.sort(),
        numbersOf(all)
          .filter((no) => no !== one.no)
          .sort(),
      );
      const counts = (await other.packets.counts()).map((of) => [of.queue, of.due, of.owned]);
      assert.deepEqual(
        counts.sort(),
        [
          [queue, 1, 0],
          ["one", 0, 1],
          ["two", 0, 1],
        ].sort(),
      );
    }),

    packetCase("hundreds of packets, with payloads of any length and any characters, are stored as they were sent", async (scene) => {
      const hand = await handOf(scene);
      const letters = [null, { name: "a", retentionMs: null }, { name: "b", retentionMs: 7 }];
      const packets = Array.from({ length: 300 }, (_, i) =>
        hand.packet({
          claim: true,
          queue: `edge ${i % 7}`,
          letter: letters[i % 3] ?? null,
          payload: JSON.stringify(`${i} "ü\u{1f600}" ${"x".repeat(i % 50 === 0 ? 5000 : i)}`),
        }),
      );
      const placed = claimedOf(await hand.send(...packets));
      const other = await scene.open();
      for (const [i, packet] of placed.entries()) {
        if (i % 10 > 0) continue;
        assert.equal(packet.payload, packets[i]?.payload);
        assert.deepEqual(await packetOf(other, packet.no), packetMembers(packet));
      }
      // One packet has a retention of 7 ms and one has none: each dead letter keeps the setting of its packet.
      await hand.settle(placed[1] as PacketRecord, dead);
      await hand.settle(placed[3] as PacketRecord, dead);
      assert.deepEqual((await packetOf(other, placed[1]?.no ?? 0)).dead?.name, "a");
      assert.equal(await other.packets.packet(placed[3]?.no ?? 0), undefined);
      const rest = placed.filter((_, i) => i !== 1 && i !== 3).reverse();
      await Promise.all(rest.map((packet) => hand.done(packet)));
      assert.deepEqual(await countsOf(hand), [{ flow, queue: "edge 1", ...none, dead: 1 }]);
    }),
  ],
};
