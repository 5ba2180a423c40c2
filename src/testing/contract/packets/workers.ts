import assert from "node:assert/strict";
import type { PacketRecord } from "../../../core/packets/packet.js";
import type { ContractGroup } from "../contract-case.js";
import { type Scene, shortMs } from "../ledger/scene.js";
import { handOf, packetCase, reach, timeOf, unchanged } from "./packet-case.js";
import { dead, done, flow, Hand, keyOf, kindsOf, numbersOf, packetOf, queue, retry, submit } from "./packet-operations.js";

/** A worker whose lease has expired (`late`), its packet, and the worker that has claimed the packet since (`next`). */
async function takenOver(scene: Scene, fields: Parameters<Hand["packet"]>[0] = {}) {
  const [late, next] = [await Hand.on(await scene.store(), shortMs), await handOf(scene)];
  const packet = await late.sendAndClaim(fields);
  await reach(scene, next, (await timeOf(next)) + shortMs + 1);
  const again = await next.take();
  assert.equal(again.no, packet.no);
  return { late, next, packet, again };
}

/** Sends a packet and claims it. */
async function claimedBy(hand: Hand): Promise<PacketRecord> {
  await hand.send(hand.packet());
  return await hand.take();
}

export const working: ContractGroup = {
  verb: "worker",
  cases: [
    packetCase("the packets of a silent worker are claimed by another one, and their crash count rises", async (scene) => {
      const { again, packet } = await takenOver(scene);
      assert.deepEqual([again.attempt, again.crashes, packet.crashes], [2, 1, 0]);
    }),

    packetCase("a worker marks a packet as tried alone: it keeps the packet, and the next worker sees the mark", async (scene) => {
      const [hand, next] = [await Hand.on(await scene.store(), shortMs), await handOf(scene)];
      for (const packet of [await hand.sendAndClaim({ key: keyOf("k") }), await claimedBy(hand)]) {
        const [before, to] = [await packetOf(hand.store, packet.no), { kind: "trial", history: '["alone"]' } as const];
        const answer = await hand.settle(packet, to);
        assert.deepEqual([answer.placed, answer.woken, answer.ended], [[], [], []]);
        // Repeated, as after a lost reply.
        await hand.settle(packet, to);
        assert.deepEqual(await packetOf(next.store, packet.no), { ...before, history: '["alone"]' });
      }
      await reach(scene, next, (await timeOf(next)) + shortMs + 1);
      const { claimed } = await next.claim();
      assert.deepEqual(
        claimed.map(({ attempt, crashes, history }) => [attempt, crashes, history]),
        [
          [2, 1, '["alone"]'],
          [2, 1, '["alone"]'],
        ],
      );
      for (const packet of claimed) await next.done(packet);
      assert.equal((await scene.record(keyOf("k"))).state, "completed");
    }),

    packetCase("a trial that is sent again after the settle changes nothing", async (scene) => {
      const hand = await handOf(scene);
      const to = { kind: "trial", history: '["alone"]' } as const;
      const [gone, later] = [await hand.sendAndClaim(), await hand.sendAndClaim({ queue: "later" })];
      for (const packet of [gone, later]) await hand.settle(packet, to);
      await hand.done(gone);
      await hand.settle(later, retry(0, '["failed"]'));
      for (const packet of [gone, later]) await unchanged(hand.store, () => hand.settle(packet, to));
      assert.equal(await hand.store.packets.packet(gone.no), undefined);
      assert.equal((await packetOf(hand.store, later.no)).history, '["failed"]');
    }),

    packetCase("a packet handed back with a delay is due after it, and the attempt does not count", async (scene) => {
      const hand = await handOf(scene);
      const packet = await hand.sendAndClaim();
      const { now } = await hand.settle(packet, { kind: "release", delayMs: 60_000 });
      const { dueAt, since, owner } = await packetOf(hand.store, packet.no);
      assert.deepEqual([dueAt, since, owner], [now + 60_000, 1, null]);
      assert.deepEqual((await hand.claim()).claimed, []);
    }),

    packetCase("a late settle changes nothing, and sends nothing", async (scene) => {
      const { late, next, packet, again } = await takenOver(scene, { key: keyOf("k") });
      for (const to of [done, dead, retry(), { kind: "trial", history: "[]" } as const]) {
        const settle = late.settleOf(packet, to, [late.packet()]);
        assert.deepEqual(await unchanged(next.store, () => submit(late.store, settle)), { kind: "packetStale" });
      }
      assert.deepEqual((await packetOf(next.store, packet.no)).owner, next.no);
      assert.equal((await scene.record(keyOf("k"))).state, "running");
      await next.done(again);
    }),

    packetCase("a late settle of more than a thousand packets is stale for each of them", async (scene) => {
      const [late, next] = [await Hand.on(await scene.store(), shortMs), await handOf(scene)];
      const packets = Array.from({ length: 1100 }, () => late.packet({ claim: true }));
      const placed = await late.send(...packets);
      // In one claim, so not by looking at the store's time.
      await scene.pass(shortMs + 20);
      await next.claim({ limit: 1 });
      assert.equal(await late.store.packets.renew(late.no, shortMs), false);
      for (const each of [placed[0], placed[1050], placed[1099]]) {
        const packet = each?.kind === "claimed" ? each.packet : assert.fail();
        assert.equal((await submit(late.store, late.settleOf(packet, done))).kind, "packetStale");
      }
    }),

    packetCase("a worker that renews in time keeps its packets", async (scene) => {
      const [hand, other] = [await Hand.on(await scene.store(), shortMs), await handOf(scene)];
      const packet = await hand.sendAndClaim();
      assert.equal(await hand.store.packets.renew(hand.no, 60_000), true);
      await reach(scene, other, (await timeOf(other)) + shortMs + 1);
      assert.deepEqual((await other.claim()).claimed, []);
      await hand.done(packet);
      assert.equal(await hand.store.packets.packet(packet.no), undefined);
    }),

    packetCase("a worker that was silent and was not taken over continues", async (scene) => {
      const [hand, clock] = [await Hand.on(await scene.store(), shortMs), await handOf(scene)];
      const packet = await hand.sendAndClaim();
      const until = (await packetOf(hand.store, packet.no)).createdAt + shortMs + 1;
      await scene.until("its lease is over", async () => {
        const { dueAt } = await packetOf(hand.store, packet.no);
        const { now } = await hand.claimFrom("missing");
        if (now < until) await scene.pass(until - now);
        return now >= until && dueAt > 0;
      });
      assert.equal(await hand.store.packets.renew(hand.no, 60_000), true);
      assert.deepEqual((await clock.claim()).claimed, []);
      await hand.done(packet);
    }),

    packetCase("a worker that was taken over is answered so, and joins under another number", async (scene) => {
      const { late } = await takenOver(scene);
      assert.equal(await late.store.packets.renew(late.no, 60_000), false);
      assert.equal((await late.claim()).known, false);
      assert.notEqual((await Hand.on(late.store)).no, late.no);
    }),

    packetCase("a packet sent by a worker that was taken over is due, and is not claimed by it", async (scene) => {
      const { late } = await takenOver(scene);
      assert.deepEqual(kindsOf(await late.send(late.packet({ claim: true }))), ["due"]);
    }),

    packetCase("a packet keeps its key and its place when its worker dies", async (scene) => {
      const lane = { name: "lane", deadBlocks: false };
      const { next, again } = await takenOver(scene, { key: keyOf("k"), lane });
      const record = await scene.record(keyOf("k"));
      assert.deepEqual([record.owner, record.attempt], [`packet:${again.no}`, 1]);
      assert.deepEqual(kindsOf(await next.send(next.packet({ lane, claim: true }))), ["held"]);
      await next.done(again);
      await next.take();
    }),

    packetCase("re-injecting a packet resets its crash count", async (scene) => {
      const { next, again } = await takenOver(scene);
      await next.settle(again, dead);
      await next.store.packets.reinject(again.no);
      const once = await next.take();
      assert.deepEqual([once.attempt, once.since, once.crashes], [3, 2, 0]);
    }),

    packetCase("a worker that leaves hands back its packets, and their attempts do not count", async (scene) => {
      const [hand, other] = [await handOf(scene), await handOf(scene)];
      const packets = [hand.packet({ claim: true }), hand.packet({ claim: true })];
      await hand.send(...packets);
      await hand.store.packets.leave(hand.no);
      const { claimed } = await other.claim();
      assert.deepEqual(numbersOf(claimed).sort(), numbersOf(packets).sort());
      for (const { attempt, since, crashes } of claimed) assert.deepEqual([attempt - since, crashes], [1, 0]);
      const first = claimed[0] ?? assert.fail();
      assert.equal((await submit(hand.store, hand.settleOf({ ...first, attempt: 1 }, done))).kind, "packetStale");
      await hand.store.packets.leave(hand.no);
    }),

    packetCase("a worker that left has no lease that can expire", async (scene) => {
      const [hand, other] = [await handOf(scene), await handOf(scene)];
      await hand.store.packets.leave(hand.no);
      assert.equal((await other.claim()).nextAt, null);
    }),
  ],
};

export const resting: ContractGroup = {
  verb: "flow",
  cases: [
    packetCase("a flow is active by default, and a state that was set is kept", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      assert.equal(await store.packets.flowState("a flow"), "active");
      for (const state of ["paused", "archived", "active"] as const) {
        await store.packets.setFlowState("a flow", state);
        assert.equal(await other.packets.flowState("a flow"), state);
      }
      assert.equal(await store.packets.flowState("another"), "active");
    }),

    packetCase("packets of a paused or archived flow are not claimed, and the claim names these flows", async (scene) => {
      const hand = await handOf(scene);
      await hand.send(hand.packet(), hand.packet({ flow: "other" }));
      const queues = [
        { flow, queue, limit: 10 },
        { flow: "other", queue, limit: 10 },
      ];
      for (const state of ["paused", "archived"] as const) {
        await hand.store.packets.setFlowState(flow, state);
        const { claimed, resting: rest, nextAt } = await hand.claim({ queues, limit: 0 });
        assert.deepEqual([claimed, rest], [[], [flow]]);
        assert.ok(nextAt !== null);
      }
      assert.deepEqual(
        (await hand.claim({ queues })).claimed.map((packet) => packet.flow),
        ["other"],
      );
      assert.equal((await hand.claim({ queues })).nextAt, null);
      await hand.store.packets.setFlowState(flow, "active");
      assert.equal((await hand.claim({ queues })).claimed.length, 1);
    }),

    packetCase("packets claimed before a flow was paused or archived can be settled, and their outputs wait", async (scene) => {
      const hand = await handOf(scene);
      const execution = await hand.trigger({});
      const packet = await hand.take();
      await hand.store.packets.setFlowState(flow, "archived");
      assert.deepEqual(kindsOf((await hand.done(packet, hand.packet({ execution, claim: true }))).placed), ["due"]);
      assert.deepEqual((await hand.claim()).claimed, []);
    }),
  ],
};
