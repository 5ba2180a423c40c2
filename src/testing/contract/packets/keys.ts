import assert from "node:assert/strict";
import type { ContractGroup } from "../contract-case.js";
import { beginOf, completed, dayMs, renewOf, send, settle, start, unknown } from "../ledger/operations.js";
import { type Scene, shortMs } from "../ledger/scene.js";
import { handOf, packetCase, reach } from "./packet-case.js";
import { countersOf, dead, Hand, keyOf, kindsOf, notesOf, numbersOf, packetOf, retry } from "./packet-operations.js";

const key = keyOf("k");
const recordOf = (scene: Scene) => scene.record(key);

/** One packet holds the key and another one waits for it; each belongs to its own execution. */
async function oneAndHeld(scene: Scene, held: Partial<typeof key> = {}, fields: Partial<typeof key> = {}) {
  const hand = await handOf(scene);
  const first = await hand.trigger({ key: { ...key, ...fields } });
  const packet = await hand.take();
  const second = await hand.trigger({ key: { ...key, ...held } });
  assert.deepEqual((await hand.claim()).claimed, []);
  const [waiting] = await hand.store.packets.packetsOf(second, 10);
  assert.equal(waiting?.state, "held");
  return { hand, first, packet, second, held: waiting };
}

export const keying: ContractGroup = {
  verb: "key",
  cases: [
    packetCase("absent: the packet is delivered, its key runs without expiry, and is completed when the packet is done", async (scene) => {
      const hand = await handOf(scene);
      const packet = await hand.sendAndClaim({ key });
      const running = await recordOf(scene);
      assert.deepEqual([running.state, running.owner, running.leaseUntil], ["running", `packet:${packet.no}`, 8_640_000_000_000_000]);
      const { now } = await hand.done(packet);
      const { state, expiresAt, attempt } = await recordOf(scene);
      assert.deepEqual([state, expiresAt, attempt], ["completed", now + dayMs, 1]);
    }),

    packetCase("completed: the packet is acknowledged without being delivered, with a note", async (scene) => {
      const hand = await handOf(scene);
      await hand.done(await hand.sendAndClaim({ key }));
      const execution = await hand.trigger({ key });
      const { claimed, closed, ended } = await hand.claim();
      assert.deepEqual([claimed, closed.map(({ to }) => to), numbersOf(ended)], [[], ["duplicate"], [execution]]);
      assert.deepEqual(await countersOf(hand.store, execution), [0, 1, 0, true]);
      assert.deepEqual(await hand.store.packets.packetsOf(execution, 10), []);
      const [note] = await hand.store.packets.notes(execution, 10);
      assert.deepEqual([note?.kind, note?.about, note?.queue], ["duplicate", "k", "edge"]);
    }),

    packetCase("completed: a packet that its sender would claim at once is not stored", async (scene) => {
      const hand = await handOf(scene);
      await hand.done(await hand.sendAndClaim({ key }));
      const execution = hand.execution();
      const { placed, ended } = await hand.begin(execution, { key, claim: true });
      assert.deepEqual([kindsOf(placed), numbersOf(ended)], [["duplicate"], [execution.no]]);
      assert.deepEqual(await countersOf(hand.store, execution.no), [0, 1, 0, true]);
    }),

    packetCase("restarted: the key is free, and the next packet with the key is delivered", async (scene) => {
      const hand = await handOf(scene);
      await hand.settle(await hand.sendAndClaim({ key }), { kind: "done", keep: false, note: "restarted" });
      assert.equal((await recordOf(scene)).state, "free");
      await hand.done(await hand.sendAndClaim({ key }));
      assert.equal((await recordOf(scene)).state, "completed");
    }),

    packetCase("completed, and its retention has passed: the packet is delivered again", async (scene) => {
      const hand = await handOf(scene);
      const short = { ...key, retentionMs: shortMs };
      await hand.done(await hand.sendAndClaim({ key: short }));
      await reach(scene, hand, (await recordOf(scene)).expiresAt ?? 0);
      const again = await hand.sendAndClaim({ key: short });
      assert.equal(again.attempt, 1);
      assert.equal((await recordOf(scene)).attempt, 2);
    }),

    packetCase("in progress: the packet is held, and acknowledged when the first one is done", async (scene) => {
      const { hand, packet, second, held } = await oneAndHeld(scene);
      const { woken, ended } = await hand.done(packet);
      assert.deepEqual(
        woken.map(({ no, to }) => [no, to]),
        [[held.no, "duplicate"]],
      );
      assert.ok(numbersOf(ended).includes(second));
      assert.deepEqual(await countersOf(hand.store, second), [0, 1, 0, true]);
      assert.equal(await hand.store.packets.packet(held.no), undefined);
    }),

    packetCase("in progress: a hundred are held, and all acknowledged in the commit that completes it", async (scene) => {
      const hand = await handOf(scene);
      const packet = await hand.sendAndClaim({ key });
      const others = Array.from({ length: 100 }, () => hand.packet({ key, claim: true }));
      assert.deepEqual(new Set(kindsOf(await hand.send(...others))), new Set(["held"]));
      const { woken } = await hand.done(packet);
      assert.deepEqual(numbersOf(woken), numbersOf(others));
      assert.deepEqual(await hand.claim().then(({ claimed, closed }) => [claimed, closed]), [[], []]);
    }),

    packetCase("a packet that waits for its retry keeps its key", async (scene) => {
      const { hand, packet, held } = await oneAndHeld(scene);
      await hand.settle(packet, retry());
      assert.equal((await recordOf(scene)).state, "running");
      const again = await hand.take();
      assert.deepEqual([again.no, again.attempt], [packet.no, 2]);
      assert.equal((await packetOf(hand.store, held.no)).state, "held");
      assert.equal((await recordOf(scene)).attempt, 1);
    }),

    packetCase("failed permanently: the key is free, and only the oldest held packet is due", async (scene) => {
      const { hand, packet, held } = await oneAndHeld(scene);
      await hand.send(hand.packet({ key, claim: true }));
      const { woken } = await hand.settle(packet, dead);
      assert.deepEqual(
        woken.map(({ no, to }) => [no, to]),
        [[held.no, "due"]],
      );
      const next = await hand.take();
      assert.equal(next.no, held.no);
      const { state, attempt, owner } = await recordOf(scene);
      assert.deepEqual([state, attempt, owner], ["running", 2, `packet:${held.no}`]);
      assert.equal((await hand.done(next)).woken.length, 1);
    }),

    packetCase("another payload under the same key, completed: acknowledged, with a note", async (scene) => {
      const hand = await handOf(scene);
      await hand.done(await hand.sendAndClaim({ key: { ...key, fingerprint: "a" } }));
      const execution = await hand.trigger({ key: { ...key, fingerprint: "b" } });
      assert.deepEqual(
        (await hand.claim()).closed.map(({ to }) => to),
        ["mismatch"],
      );
      assert.deepEqual(await notesOf(hand.store, execution), ["mismatch"]);
      assert.deepEqual(await countersOf(hand.store, execution), [0, 1, 0, true]);
    }),

    packetCase(
      "another payload, held until the first is done: acknowledged with a note, or a dead letter if the edge says so",
      async (scene) => {
        const prints = { fingerprint: "b", onMismatch: "deadLetter" } as const;
        const { hand, packet, second, held } = await oneAndHeld(scene, prints, { fingerprint: "a" });
        const third = await hand.trigger({ key: { ...key, fingerprint: "c" }, claim: true });
        const { woken } = await hand.done(packet);
        assert.deepEqual(woken.map(({ to, note }) => `${to} ${note}`).sort(), ["dead mismatch", "mismatch null"]);
        assert.equal((await packetOf(hand.store, held.no)).state, "dead");
        assert.deepEqual(await countersOf(hand.store, second), [0, 0, 1, true]);
        assert.deepEqual(await countersOf(hand.store, third), [0, 1, 0, true]);
        assert.deepEqual([await notesOf(hand.store, second), await notesOf(hand.store, third)], [["mismatch"], ["mismatch"]]);
      },
    ),

    packetCase("another payload under a completed key: a dead letter if the edge says so", async (scene) => {
      const hand = await handOf(scene);
      await hand.done(await hand.sendAndClaim({ key: { ...key, fingerprint: "a" } }));
      const execution = hand.execution();
      const { placed } = await hand.begin(execution, { key: { ...key, fingerprint: "b", onMismatch: "deadLetter" }, claim: true });
      assert.deepEqual(kindsOf(placed), ["dead"]);
      assert.equal((await hand.store.packets.deadLetters({ limit: 10 })).length, 1);
      assert.deepEqual(await countersOf(hand.store, execution.no), [0, 0, 1, true]);
    }),

    packetCase("packets without a payload fingerprint never mismatch", async (scene) => {
      const { hand, packet } = await oneAndHeld(scene, { fingerprint: null }, { fingerprint: "a" });
      assert.deepEqual(
        (await hand.done(packet)).woken.map(({ to }) => to),
        ["duplicate"],
      );
    }),

    packetCase("another payload while the first is in progress: held, and delivered if the first fails", async (scene) => {
      const { hand, packet, held } = await oneAndHeld(scene, { fingerprint: "b" }, { fingerprint: "a" });
      await hand.settle(packet, dead);
      assert.equal((await hand.take()).no, held.no);
      assert.equal((await recordOf(scene)).fingerprint, "b");
    }),

    packetCase("equal keys in different scopes are independent", async (scene) => {
      const hand = await handOf(scene);
      await hand.sendAndClaim({ key });
      await hand.sendAndClaim({ key: { ...key, scope: "another" } });
    }),

    packetCase("a key that another caller runs in the ledger: the packet is held until that ends, without a busy loop", async (scene) => {
      const hand = await handOf(scene);
      const held = await start(hand.store, beginOf({ scope: key.scope, key: key.key }));
      const packet = hand.packet({ key });
      await hand.send(packet);
      const { claimed, nextAt, now } = await hand.claim();
      assert.deepEqual(claimed, []);
      assert.ok(nextAt !== null && nextAt > now && nextAt <= now + 5000);
      await settle(hand.store, held, completed(1));
      await reach(scene, hand, nextAt);
      assert.deepEqual(
        (await hand.claim()).closed.map(({ no, to }) => [no, to]),
        [[packet.no, "duplicate"]],
      );
    }),

    packetCase("a key that is unknown in the ledger: the packet is held, without a busy loop", async (scene) => {
      const hand = await handOf(scene);
      const { begin } = await scene.dieAndLapse(beginOf({ scope: key.scope, key: key.key, effect: "atMostOnce" }));
      assert.equal(begin.key, key.key);
      await hand.send(hand.packet({ key }));
      const { claimed, nextAt, now } = await hand.claim();
      assert.deepEqual(claimed, []);
      assert.ok(nextAt !== null && nextAt > now, `again at ${nextAt}, and it is ${now}`);
      const unsure = await start(hand.store, beginOf({ scope: key.scope, key: "unsure", effect: "atMostOnce" }));
      await settle(hand.store, unsure, unknown);
      const other = hand.packet({ key: { ...key, key: "unsure" }, queue: "other" });
      await hand.send(other);
      const again = await hand.claimFrom("other");
      assert.ok(again.nextAt !== null && again.nextAt > again.now);
    }),

    // Otherwise the packets that wait for this packet would wait forever.
    packetCase("a key that was taken from its packet: the held packets check the key themselves", async (scene) => {
      const { hand, packet, held } = await oneAndHeld(scene);
      const { attempt } = await recordOf(scene);
      const owner = `packet:${packet.no}`;
      await hand.store.commit({ ledger: { verb: "settle", ...key, owner, attempt, to: { state: "free" }, note: null } });
      await start(hand.store, beginOf({ scope: key.scope, key: key.key, leaseMs: shortMs }));
      const { woken } = await hand.done(packet);
      assert.deepEqual(
        woken.map(({ no, to }) => [no, to]),
        [[held.no, "due"]],
      );
    }),

    packetCase("a key that was taken from its packet and is renewed all the time: the packet is settled nevertheless", async (scene) => {
      const { hand, packet, held } = await oneAndHeld(scene);
      const { attempt } = await recordOf(scene);
      const other = await scene.open();
      await other.commit({ ledger: { verb: "settle", ...key, owner: `packet:${packet.no}`, attempt, to: { state: "free" }, note: null } });
      const taken = await start(other, beginOf({ scope: key.scope, key: key.key }));
      let isSettled = false;
      const renewals = (async () => {
        while (!isSettled) await send(other, renewOf(taken));
      })();
      const { woken } = await hand.done(packet).finally(() => {
        isSettled = true;
      });
      await renewals;
      assert.deepEqual(
        woken.map(({ no, to }) => [no, to]),
        [[held.no, "due"]],
      );
    }),

    packetCase("one key, twenty packets on two handles, workers that die or fail at random: the key is completed once", async (scene) => {
      const handles = [await scene.store(), await scene.open()];
      const [hand, other] = [await Hand.on(handles[0] as (typeof handles)[0]), await Hand.on(handles[1] as (typeof handles)[0])];
      await hand.send(...Array.from({ length: 20 }, () => hand.packet({ key })));
      let completions = 0;
      let delivered = 0;
      const work = async (one: Hand) => {
        for (const packet of (await one.claim({ limit: 3 })).claimed) {
          delivered += 1;
          const to = delivered === 2 ? dead : delivered % 3 === 0 ? retry() : undefined;
          if (to) await one.settle(packet, to);
          else {
            await one.done(packet);
            completions += 1;
          }
        }
      };
      await scene.until("nothing is left", async () => {
        await Promise.all([work(hand), work(other)]);
        return (await hand.store.packets.counts()).every(({ due, held, owned }) => due + held + owned === 0);
      });
      assert.equal(completions, 1);
      assert.equal((await recordOf(scene)).state, "completed");
    }),
  ],
};
