import assert from "node:assert/strict";
import type { ContractGroup } from "../contract-case.js";
import { handOf, packetCase } from "./packet-case.js";
import { dead, Hand, keyOf, kindsOf, numbersOf, packetOf, retry } from "./packet-operations.js";

const lane = { name: "customer 1", deadBlocks: false };
const blocking = { name: "customer 1", deadBlocks: true };

export const ordering: ContractGroup = {
  verb: "lane",
  cases: [
    packetCase("packets of a lane are delivered one after the other, in the order in which they were sent", async (scene) => {
      const hand = await handOf(scene);
      const packets = [hand.packet({ lane }), hand.packet({ lane }), hand.packet({ lane })];
      // The order of the commits decides, not the packet number.
      await hand.send(packets[2] as (typeof packets)[0]);
      await hand.send(packets[0] as (typeof packets)[0], packets[1] as (typeof packets)[0]);
      const order: number[] = [];
      for (let i = 0; i < 3; i++) {
        const packet = await hand.take();
        order.push(packet.no);
        const { woken } = await hand.done(packet);
        assert.equal(woken.length, i < 2 ? 1 : 0);
      }
      assert.deepEqual(order, [packets[2]?.no, packets[0]?.no, packets[1]?.no]);
    }),

    packetCase("a packet that waits for its retry keeps its place", async (scene) => {
      const hand = await handOf(scene);
      const first = await hand.sendAndClaim({ lane });
      assert.deepEqual(kindsOf(await hand.send(hand.packet({ lane, claim: true }))), ["held"]);
      await hand.settle(first, retry(30_000));
      assert.deepEqual((await hand.claim()).claimed, []);
    }),

    packetCase("lanes with other names and in other queues are independent", async (scene) => {
      const hand = await handOf(scene);
      await hand.sendAndClaim({ lane });
      await hand.sendAndClaim({ lane: { ...lane, name: "customer 2" } });
      await hand.sendAndClaim({ lane, queue: "other" });
      await hand.sendAndClaim({ lane, flow: "other" });
      await hand.sendAndClaim();
    }),

    packetCase("a lane that was empty accepts packets again", async (scene) => {
      const hand = await handOf(scene);
      for (let i = 0; i < 3; i++) await hand.done(await hand.sendAndClaim({ lane }));
    }),

    packetCase("a dead letter lets the next packet through", async (scene) => {
      const hand = await handOf(scene);
      const first = await hand.sendAndClaim({ lane });
      const next = hand.packet({ lane });
      await hand.send(next);
      const { woken } = await hand.settle(first, dead);
      assert.deepEqual(numbersOf(woken), [next.no]);
      assert.equal((await hand.take()).no, next.no);
    }),

    packetCase("a re-injected letter goes to the end of its lane", async (scene) => {
      const hand = await handOf(scene);
      const first = await hand.sendAndClaim({ lane });
      const [second, third] = [hand.packet({ lane }), hand.packet({ lane })];
      await hand.send(second, third);
      await hand.settle(first, dead);
      assert.equal(await hand.store.packets.reinject(first.no), true);
      assert.equal((await packetOf(hand.store, first.no)).state, "held");
      const order: number[] = [];
      for (let i = 0; i < 3; i++) {
        const packet = await hand.take();
        order.push(packet.no);
        await hand.done(packet);
      }
      assert.deepEqual(order, [second.no, third.no, first.no]);
    }),

    packetCase("a dead letter that blocks keeps its place, until it is re-injected", async (scene) => {
      const hand = await handOf(scene);
      const first = await hand.sendAndClaim({ lane: blocking });
      const next = hand.packet({ lane: blocking });
      await hand.send(next);
      assert.deepEqual((await hand.settle(first, dead)).woken, []);
      assert.deepEqual((await hand.claim()).claimed, []);
      assert.equal(await hand.store.packets.reinject(first.no), true);
      const again = await hand.take();
      assert.equal(again.no, first.no);
      await hand.done(again);
      assert.equal((await hand.take()).no, next.no);
    }),

    packetCase("a dead letter that blocks keeps its place, until it is discarded", async (scene) => {
      const hand = await handOf(scene);
      const first = await hand.sendAndClaim({ lane: blocking });
      const next = hand.packet({ lane: blocking });
      await hand.send(next);
      await hand.settle(first, dead);
      assert.equal(await hand.store.packets.discard(first.no), true);
      assert.equal((await hand.take()).no, next.no);
    }),

    packetCase("a dropped packet lets the next one through, even where dead letters block", async (scene) => {
      const hand = await handOf(scene);
      const first = await hand.sendAndClaim({ lane: blocking, letter: null });
      await hand.send(hand.packet({ lane: blocking }));
      await hand.settle(first, dead);
      await hand.take();
    }),

    packetCase("a packet that is acknowledged instead of delivered lets the next one through, even within one claim", async (scene) => {
      const hand = await handOf(scene);
      await hand.done(await hand.sendAndClaim({ key: keyOf("k"), queue: "other" }));
      const last = hand.packet({ lane });
      await hand.send(hand.packet({ lane, key: keyOf("k") }), hand.packet({ lane, key: keyOf("k") }), last);
      assert.equal((await hand.take()).no, last.no);
    }),

    packetCase("a first packet that is held by its key blocks its lane until it goes through", async (scene) => {
      const hand = await handOf(scene);
      const first = await hand.sendAndClaim({ key: keyOf("k"), queue: "other" });
      const [head, next] = [hand.packet({ lane, key: keyOf("k"), claim: true }), hand.packet({ lane, claim: true })];
      assert.deepEqual(kindsOf(await hand.send(head, next)), ["held", "held"]);
      assert.deepEqual((await hand.claim()).claimed, []);
      await hand.done(first);
      assert.equal((await hand.take()).no, next.no);
    }),

    packetCase("two handles that send to one lane and deliver from it: never two packets at a time, and none is left", async (scene) => {
      const hands = [await handOf(scene), await Hand.on(await scene.open())];
      await Promise.all(hands.flatMap((hand) => Array.from({ length: 10 }, () => hand.send(hand.packet({ lane })))));
      let under = 0;
      let delivered = 0;
      const work = async (hand: Hand) => {
        for (const packet of (await hand.claim()).claimed) {
          under += 1;
          assert.equal(under, 1, "one of a lane at a time");
          await scene.pass(1);
          under -= 1;
          await hand.done(packet);
          delivered += 1;
        }
      };
      await scene.until("all are delivered", async () => {
        await Promise.all(hands.map(work));
        return delivered === 20;
      });
    }),
  ],
};
