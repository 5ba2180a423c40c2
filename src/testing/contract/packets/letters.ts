import assert from "node:assert/strict";
import type { ContractGroup } from "../contract-case.js";
import { shortMs } from "../ledger/scene.js";
import { handOf, packetCase, reach, unchanged } from "./packet-case.js";
import { countersOf, dead, executionOf, flow, keyOf, numbersOf, packetOf, queue, retry } from "./packet-operations.js";

export const lettering: ContractGroup = {
  verb: "dead letter",
  cases: [
    packetCase("re-injected: due again, with its key and its history, and its attempt numbers continue", async (scene) => {
      const hand = await handOf(scene);
      const packet = await hand.sendAndClaim({ key: keyOf("k") });
      await hand.settle(packet, retry());
      await hand.settle(await hand.take(), dead);
      assert.equal((await scene.record(keyOf("k"))).state, "free");
      assert.equal(await hand.store.packets.reinject(packet.no), true);
      const again = await hand.take();
      assert.deepEqual([again.no, again.attempt, again.since, again.crashes], [packet.no, 3, 2, 0]);
      assert.deepEqual([again.key, again.history, again.dead], [packet.key, '["failed"]', null]);
      await hand.done(again);
      assert.equal((await scene.record(keyOf("k"))).state, "completed");
    }),

    packetCase("re-injected when its key has been completed: acknowledged", async (scene) => {
      const hand = await handOf(scene);
      const packet = await hand.sendAndClaim({ key: keyOf("k") });
      await hand.settle(packet, dead);
      await hand.done(await hand.sendAndClaim({ key: keyOf("k") }));
      await hand.store.packets.reinject(packet.no);
      assert.deepEqual(
        (await hand.claim()).closed.map(({ no, to }) => [no, to]),
        [[packet.no, "duplicate"]],
      );
    }),

    packetCase("only a dead letter is re-injected or discarded, and only once", async (scene) => {
      const hand = await handOf(scene);
      const { packets } = hand.store;
      const live = hand.packet();
      await hand.send(live);
      for (const no of [live.no, 12_345]) {
        assert.equal(await unchanged(hand.store, () => packets.reinject(no)), false);
        assert.equal(await unchanged(hand.store, () => packets.discard(no)), false);
      }
      const packet = await hand.take();
      await hand.settle(packet, dead);
      assert.deepEqual([await packets.reinject(packet.no), await packets.reinject(packet.no)], [true, false]);
      await hand.settle(await hand.take(), dead);
      assert.deepEqual([await packets.discard(packet.no), await packets.discard(packet.no)], [true, false]);
      assert.equal(await packets.packet(packet.no), undefined);
    }),

    packetCase("discarded: removed, and its execution is no longer dead because of it", async (scene) => {
      const hand = await handOf(scene);
      const execution = await hand.trigger({});
      const packet = await hand.take();
      await hand.settle(packet, dead);
      const { endedAt } = await executionOf(hand.store, execution);
      await hand.store.packets.discard(packet.no);
      assert.deepEqual(await countersOf(hand.store, execution), [0, 0, 0, true]);
      assert.equal((await executionOf(hand.store, execution)).endedAt, endedAt);
    }),

    packetCase("listed newest first, by flow and name, in pages", async (scene) => {
      const hand = await handOf(scene);
      const made: number[] = [];
      for (let i = 0; i < 7; i++) {
        const letter = { name: i < 3 ? "a" : "b", retentionMs: null };
        const packet = await hand.sendAndClaim({ letter, flow: i % 2 === 0 ? flow : "other" });
        await hand.settle(packet, dead);
        made.unshift(packet.no);
      }
      const { deadLetters } = hand.store.packets;
      const list = async (query: object) => numbersOf(await deadLetters({ limit: 100, ...query }));
      assert.deepEqual(await list({}), made);
      assert.deepEqual(
        await list({ flow: "other" }),
        made.filter((_, i) => i % 2 === 1),
      );
      assert.deepEqual(await list({ name: "a" }), made.slice(4));
      assert.deepEqual(await list({ name: "a", flow: "other" }), made.slice(5, 6));
      assert.deepEqual(await list({ name: "c" }), []);
      assert.deepEqual(await list({ flow: "missing" }), []);
      const paged: number[] = [];
      for (let before: { at: number; no: number } | undefined; ; ) {
        const page = await deadLetters({ limit: 2, ...(before && { before }) });
        paged.push(...numbersOf(page));
        const last = page.at(-1);
        if (last?.dead === undefined || last.dead === null) break;
        before = { at: last.dead.at, no: last.no };
      }
      assert.deepEqual(paged, made);
    }),

    packetCase("a purge removes expired dead letters, and the packets that they blocked become due", async (scene) => {
      const hand = await handOf(scene);
      const lane = { name: "lane", deadBlocks: true };
      const short = await hand.sendAndClaim({ lane, letter: { name: "short", retentionMs: shortMs } });
      const ever = await hand.sendAndClaim({ letter: { name: "ever", retentionMs: null } });
      const long = await hand.sendAndClaim();
      const next = hand.packet({ lane });
      await hand.send(next);
      for (const packet of [short, ever, long]) await hand.settle(packet, dead);
      const { dead: letter } = await packetOf(hand.store, short.no);
      await reach(scene, hand, letter?.expiresAt ?? 0);
      assert.equal(await hand.store.packets.purge(100), 1);
      assert.equal(await hand.store.packets.purge(100), 0);
      assert.deepEqual(numbersOf(await hand.store.packets.deadLetters({ limit: 10 })).sort(), [ever.no, long.no].sort());
      assert.equal((await hand.take()).no, next.no);
    }),

    packetCase("a purge removes expired executions with their notes, up to its limit", async (scene) => {
      const hand = await handOf(scene);
      const short = [1, 2, 3].map(() => hand.execution({ retentionMs: shortMs }));
      const others = [hand.execution({ retentionMs: null }), hand.execution()];
      const running = hand.execution({ retentionMs: 0 });
      for (const execution of [...short, ...others]) {
        await hand.begin(execution, { letter: null });
        await hand.settle(await hand.take(), dead);
      }
      await hand.begin(running, { delayMs: 60_000 });
      const ends = await Promise.all(short.map(async ({ no }) => (await executionOf(hand.store, no)).endedAt ?? 0));
      await reach(scene, hand, Math.max(...ends) + shortMs);
      assert.deepEqual(
        [await hand.store.packets.purge(2), await hand.store.packets.purge(2), await hand.store.packets.purge(2)],
        [2, 1, 0],
      );
      assert.deepEqual(numbersOf(await hand.store.packets.executions({ limit: 10 })).sort(), numbersOf([...others, running]).sort());
      for (const { no } of short) assert.deepEqual(await hand.store.packets.notes(no, 10), []);
    }),

    packetCase("a letter outlives its execution, is re-injected and delivered, and leaves nothing behind", async (scene) => {
      const hand = await handOf(scene);
      const execution = hand.execution({ retentionMs: 0 });
      await hand.begin(execution, {});
      const packet = await hand.take();
      await hand.settle(packet, dead);
      assert.equal(await hand.store.packets.purge(10), 1);
      assert.equal(await hand.store.packets.reinject(packet.no), true);
      await hand.done(await hand.take());
      assert.deepEqual(await hand.store.packets.notes(execution.no, 10), []);
      assert.equal(await hand.store.packets.execution(execution.no), undefined);
    }),

    packetCase("counts lists the packets by queue and state", async (scene) => {
      const hand = await handOf(scene);
      const lane = { name: "lane", deadBlocks: false };
      const execution = await hand.trigger({ queue: "root", claim: true });
      await hand.send(hand.packet(), hand.packet({ delayMs: 60_000 }), hand.packet({ lane }), hand.packet({ lane }));
      await hand.send(hand.packet({ execution, join: { node: "n", port: "a", ports: ["a", "b"], waitMs: 60_000 } }));
      await hand.settle(await hand.sendAndClaim(), dead);
      await hand.sendAndClaim();
      const counts = await hand.store.packets.counts();
      assert.deepEqual(
        counts.find((each) => each.queue === queue),
        { flow, queue, due: 3, held: 1, parts: 1, owned: 1, dead: 1 },
      );
    }),
  ],
};
