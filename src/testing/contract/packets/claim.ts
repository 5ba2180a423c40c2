import assert from "node:assert/strict";
import type { ContractGroup } from "../contract-case.js";
import { shortMs } from "../ledger/scene.js";
import { handOf, packetCase, reach, unchanged } from "./packet-case.js";
import { dead, flow, Hand, keyOf, kindsOf, numbersOf, packetOf, queue, release, retry, submit } from "./packet-operations.js";

export const claimingPackets: ContractGroup = {
  verb: "claim",
  cases: [
    packetCase("the packet that became due first comes first; of two, the one with the lower number", async (scene) => {
      const hand = await handOf(scene);
      const [a, b] = [hand.packet(), hand.packet()];
      await hand.send(b, a);
      const late = await hand.sendAndClaim();
      await scene.pass(5);
      await hand.settle(late, retry());
      const { claimed } = await hand.claim();
      assert.deepEqual(numbersOf(claimed), [a.no, b.no, late.no]);
    }),

    packetCase("a claim respects the limit of each queue and of all queues, in the order of the queues", async (scene) => {
      const hand = await handOf(scene);
      for (const name of ["x", "y", "z"])
        await hand.send(hand.packet({ queue: name }), hand.packet({ queue: name }), hand.packet({ queue: name }));
      const queues = [
        { flow, queue: "z", limit: 2 },
        { flow, queue: "x", limit: 2 },
        { flow, queue: "y", limit: 2 },
      ];
      const { claimed, nextAt, now } = await hand.claim({ queues, limit: 3 });
      assert.deepEqual(
        claimed.map((packet) => packet.queue),
        ["z", "z", "x"],
      );
      assert.ok(nextAt !== null && nextAt <= now, "there is more");
      assert.equal((await hand.claim({ queues, limit: 100 })).claimed.length, 5);
      assert.equal((await hand.claim({ queues, limit: 100 })).claimed.length, 1);
    }),

    // Otherwise a worker without free capacity in one queue would poll without a pause.
    packetCase("a queue with limit 0 does not count for the next due time", async (scene) => {
      const hand = await handOf(scene);
      await hand.send(hand.packet());
      const { claimed, nextAt } = await hand.claim({ queues: [{ flow, queue, limit: 0 }] });
      assert.deepEqual([claimed, nextAt], [[], null]);
    }),

    packetCase("queues of other names and other flows are not touched", async (scene) => {
      const hand = await handOf(scene);
      await hand.send(hand.packet({ queue: "other" }), hand.packet({ flow: "other" }), hand.packet({ flow: `${flow}${queue}`, queue: "" }));
      assert.deepEqual((await hand.claim()).claimed, []);
      assert.equal((await hand.claim({ queues: [{ flow: "other", queue, limit: 9 }] })).claimed.length, 1);
    }),

    packetCase("a claimed packet is not claimed again", async (scene) => {
      const [hand, other] = [await handOf(scene), await Hand.on(await scene.open())];
      await hand.send(hand.packet(), hand.packet());
      assert.equal((await hand.claim({ limit: 1 })).claimed.length, 1);
      assert.equal((await other.claim()).claimed.length, 1);
      assert.deepEqual((await hand.claim()).claimed, []);
    }),

    packetCase("when no packet is due, the claim returns the next due time", async (scene) => {
      const hand = await handOf(scene);
      assert.equal((await hand.claim()).nextAt, null);
      const packet = hand.packet({ delayMs: 30_000 });
      await hand.send(packet, hand.packet({ delayMs: 40_000 }));
      const { claimed, nextAt } = await hand.claim();
      assert.deepEqual([claimed, nextAt], [[], (await packetOf(hand.store, packet.no)).dueAt]);
    }),

    packetCase("a packet that waits for another packet does not count for the next due time", async (scene) => {
      const hand = await handOf(scene);
      const lane = { name: "lane", deadBlocks: false };
      await hand.send(hand.packet({ lane, claim: true }), hand.packet({ lane }));
      const keyed = { key: keyOf("k") };
      await hand.send(hand.packet({ ...keyed, claim: true }), hand.packet({ ...keyed, claim: true }));
      assert.deepEqual((await hand.claim()).nextAt, null);
    }),

    packetCase("the end of another worker's lease counts for the next due time", async (scene) => {
      const hand = await handOf(scene);
      await Hand.on(hand.store, 30_000);
      const { nextAt, now } = await hand.claim();
      assert.ok(nextAt !== null && nextAt > now && nextAt <= now + 30_000);
    }),

    packetCase("an unknown worker gets no packets, and the answer says so", async (scene) => {
      const [hand, other] = [await handOf(scene), await handOf(scene)];
      await hand.send(hand.packet());
      assert.equal((await hand.claim({ limit: 0 })).known, true);
      await hand.store.packets.leave(hand.no);
      const { known, claimed } = await hand.claim();
      assert.deepEqual([known, claimed], [false, []]);
      await other.take();
    }),

    packetCase("a claim that finds nothing writes nothing", async (scene) => {
      const hand = await handOf(scene);
      await hand.trigger({ delayMs: 30_000 });
      await unchanged(hand.store, () => hand.claim());
    }),

    packetCase("a hundred packets that the claim acknowledges do not keep the next one from being delivered", async (scene) => {
      const hand = await handOf(scene);
      await hand.done(await hand.sendAndClaim({ key: keyOf("k"), queue: "first" }));
      const duplicates = Array.from({ length: 100 }, () => hand.packet({ key: keyOf("k") }));
      const last = hand.packet();
      await hand.send(...duplicates, last);
      const got: number[] = [];
      const closed: number[] = [];
      await scene.until("the last one is delivered", async () => {
        const claims = await hand.claim({ limit: 10 });
        got.push(...numbersOf(claims.claimed));
        closed.push(...numbersOf(claims.closed));
        return got.length > 0;
      });
      assert.deepEqual(got, [last.no]);
      assert.deepEqual(closed, numbersOf(duplicates));
    }),

    packetCase("a packet that fails in one queue does not hold up its neighbours", async (scene) => {
      const hand = await handOf(scene);
      const [bad, good] = [hand.packet(), hand.packet()];
      await hand.send(bad, good);
      const { claimed } = await hand.claim();
      await hand.settle(claimed[0] as (typeof claimed)[0], dead);
      await hand.done(claimed[1] as (typeof claimed)[0]);
      assert.equal((await packetOf(hand.store, bad.no)).state, "dead");
      assert.equal(await hand.store.packets.packet(good.no), undefined);
    }),
  ],
};

export const settlingPackets: ContractGroup = {
  verb: "settle",
  cases: [
    packetCase("done: the packet is removed and its output is stored, claimed by the sender where requested", async (scene) => {
      const hand = await handOf(scene);
      const packet = await hand.sendAndClaim();
      const sent = [hand.packet({ claim: true, queue: "next" }), hand.packet({ queue: "next" })];
      const { placed, woken, ended } = await hand.done(packet, ...sent);
      assert.deepEqual([kindsOf(placed), woken, ended], [["claimed", "due"], [], []]);
      assert.equal(await hand.store.packets.packet(packet.no), undefined);
      assert.deepEqual(numbersOf((await hand.claimFrom("next")).claimed), [sent[1]?.no]);
    }),

    packetCase("retry: the packet is due at its time, with its history, as the next attempt", async (scene) => {
      const hand = await handOf(scene);
      const packet = await hand.sendAndClaim();
      const { now } = await hand.settle(packet, retry(shortMs, '["once"]'));
      const waiting = await packetOf(hand.store, packet.no);
      assert.deepEqual([waiting.owner, waiting.attempt, waiting.dueAt, waiting.history], [null, 1, now + shortMs, '["once"]']);
      await reach(scene, hand, now + shortMs);
      const again = await hand.take();
      assert.deepEqual([again.no, again.attempt, again.since, again.crashes, again.history], [packet.no, 2, 0, 0, '["once"]']);
    }),

    packetCase("release: the packet is due at once and the attempt does not count; the fence still rises", async (scene) => {
      const hand = await handOf(scene);
      const packet = await hand.sendAndClaim();
      const settle = hand.settleOf(packet, release);
      await submit(hand.store, settle);
      const again = await hand.take();
      assert.equal(again.attempt - again.since, 1);
      // The reply to the release was lost, and the packet has been claimed again since: the repetition must not release it a second time.
      await submit(hand.store, settle);
      assert.equal((await packetOf(hand.store, packet.no)).owner, hand.no);
      await hand.done(again);
      assert.equal(await hand.store.packets.packet(packet.no), undefined);
    }),

    packetCase("dead: the packet is listed as a dead letter, with its history and expiry", async (scene) => {
      const hand = await handOf(scene);
      const packet = await hand.sendAndClaim();
      const { now } = await hand.settle(packet, dead);
      const [found] = await hand.store.packets.deadLetters({ limit: 10 });
      assert.equal(found?.no, packet.no);
      const letter = await packetOf(hand.store, packet.no);
      assert.deepEqual([letter.state, letter.owner, letter.history, letter.note], ["dead", null, '["failed"]', null]);
      assert.deepEqual(letter.dead, { name: "dead letters", at: now, expiresAt: now + 24 * 3600 * 1000 });
      assert.deepEqual((await hand.claim()).claimed, []);
    }),

    packetCase("dead without a dead letter: the packet is dropped, and its execution has a note", async (scene) => {
      const hand = await handOf(scene);
      const execution = await hand.trigger({ letter: null });
      const packet = await hand.take();
      const { ended } = await hand.settle(packet, dead);
      assert.deepEqual(numbersOf(ended), [execution]);
      assert.equal(await hand.store.packets.packet(packet.no), undefined);
      assert.equal((await hand.store.packets.notes(execution, 10))[0]?.kind, "dropped");
    }),

    packetCase("the same settle, sent again, is recognised and sends nothing twice", async (scene) => {
      const hand = await handOf(scene);
      const execution = await hand.trigger({});
      const settle = hand.settleOf(await hand.take(), { kind: "done", keep: false, note: null }, [
        hand.packet({ execution, claim: true, queue: "next" }),
        hand.packet({ execution, queue: "next" }),
      ]);
      await submit(hand.store, settle);
      const again = await unchanged(hand.store, () => submit(hand.store, settle));
      assert.deepEqual(again.kind === "packetSettled" && kindsOf(again.placed), ["claimed", "due"]);
    }),

    packetCase("a retry that is sent again, when the packet has been claimed since, changes nothing", async (scene) => {
      const hand = await handOf(scene);
      const settle = hand.settleOf(await hand.sendAndClaim(), retry());
      await submit(hand.store, settle);
      const again = await hand.take();
      assert.equal((await unchanged(hand.store, () => submit(hand.store, settle))).kind, "packetSettled");
      assert.deepEqual([again.attempt, (await packetOf(hand.store, again.no)).owner], [2, hand.no]);
    }),

    packetCase("many settles in one flush have each its own answer", async (scene) => {
      const hand = await handOf(scene);
      const packets = Array.from({ length: 20 }, () => hand.packet({ claim: true }));
      await hand.send(...packets);
      const sent = await Promise.all(
        packets.map(async ({ no }) => hand.done(await packetOf(hand.store, no), hand.packet({ queue: "next" }))),
      );
      assert.equal(sent.length, 20);
      const counts = await hand.store.packets.counts();
      assert.deepEqual(
        counts.filter(({ due, owned, dead: died }) => due + owned + died > 0),
        [{ flow, queue: "next", due: 20, held: 0, parts: 0, owned: 0, dead: 0 }],
      );
    }),
  ],
};
