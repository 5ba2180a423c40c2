import assert from "node:assert/strict";
import type { ContractGroup } from "../contract-case.js";
import { beginOf, completed, dayMs, expectCode, startAndSettle } from "../ledger/operations.js";
import { shortMs } from "../ledger/scene.js";
import { handOf, packetCase, reach, timeOf, unchanged } from "./packet-case.js";
import {
  countersOf,
  executionOf,
  expectAnswer,
  flow,
  Hand,
  keyOf,
  kindsOf,
  letter,
  numbersOf,
  packetOf,
  queue,
  submit,
} from "./packet-operations.js";

export const sending: ContractGroup = {
  verb: "send",
  cases: [
    packetCase("a sent packet is due, and is claimed with the same content", async (scene) => {
      const hand = await handOf(scene);
      const key = keyOf("key", { fingerprint: "print", onMismatch: "deadLetter" });
      const packet = hand.packet({
        payload: '{"a":"ü\\u0000😀"}',
        key,
        lane: { name: "läne", deadBlocks: true },
        flow: "flów",
        queue: "a → b",
      });
      assert.deepEqual(kindsOf(await hand.send(packet)), ["due"]);
      const before = await packetOf(hand.store, packet.no);
      const expected = { no: packet.no, flow: "flów", queue: "a → b", state: "due", owner: null, attempt: 0, since: 0, crashes: 0 };
      const rest = { execution: null, key, lane: "läne", payload: packet.payload, parts: null, history: null, note: null, dead: null };
      const { createdAt, dueAt } = before;
      assert.deepEqual(before, { ...expected, ...rest, createdAt, dueAt });
      assert.equal(dueAt, createdAt);
      const { claimed } = await hand.claim({ queues: [{ flow: "flów", queue: "a → b", limit: 10 }] });
      assert.deepEqual(numbersOf(claimed), [packet.no]);
      assert.deepEqual(await packetOf(hand.store, packet.no), { ...before, owner: hand.no, attempt: 1 });
    }),

    packetCase("a long payload comes back whole", async (scene) => {
      const hand = await handOf(scene);
      const payload = JSON.stringify("ä".repeat(300_000));
      await hand.send(hand.packet({ payload }));
      assert.equal((await hand.take()).payload, payload);
    }),

    packetCase("a packet can be claimed by its sender in the same commit", async (scene) => {
      const hand = await handOf(scene);
      const packet = await hand.sendAndClaim();
      assert.deepEqual([packet.owner, packet.attempt, packet.state], [hand.no, 1, "due"]);
      assert.equal((await packetOf(hand.store, packet.no)).owner, hand.no);
      assert.deepEqual((await (await Hand.on(hand.store)).claim()).claimed, []);
    }),

    // Otherwise the packet would belong to a worker that has no lease, and no lease would ever expire for it.
    packetCase("a packet of an unknown sender is due instead of being claimed by the sender", async (scene) => {
      const [hand, other] = [await handOf(scene), await handOf(scene)];
      await hand.store.packets.leave(hand.no);
      assert.deepEqual(kindsOf(await hand.send(hand.packet({ claim: true }))), ["due"]);
      assert.equal((await other.take()).attempt, 1);
    }),

    packetCase("a delayed packet is not claimed before its time, not even by its sender", async (scene) => {
      const hand = await handOf(scene);
      const packet = hand.packet({ delayMs: shortMs, claim: true });
      assert.deepEqual(kindsOf(await hand.send(packet)), ["due"]);
      const { createdAt, dueAt } = await packetOf(hand.store, packet.no);
      assert.equal(dueAt, createdAt + shortMs);
      const { claimed, nextAt, now } = await hand.claim();
      // On a slow machine the packet may be due already.
      if (now < dueAt) {
        assert.deepEqual(claimed, []);
        assert.equal(nextAt, dueAt);
        await reach(scene, hand, dueAt);
        assert.deepEqual(numbersOf((await hand.claim()).claimed), [packet.no]);
      }
    }),

    packetCase("several packets in one send have each its own answer, in order", async (scene) => {
      const hand = await handOf(scene);
      const lane = { name: "lane", deadBlocks: false };
      const packets = [hand.packet({ lane }), hand.packet({ lane }), hand.packet({ claim: true }), hand.packet()];
      assert.deepEqual(kindsOf(await hand.send(...packets)), ["due", "held", "claimed", "due"]);
      assert.deepEqual(numbersOf((await hand.claim()).claimed), [packets[0]?.no, packets[3]?.no]);
    }),

    packetCase("the same send, sent again, is recognised, and its sender keeps the packets that it claimed", async (scene) => {
      const hand = await handOf(scene);
      const send = hand.sendOf([hand.packet({ claim: true }), hand.packet()]);
      await submit(hand.store, send);
      const again = await unchanged(hand.store, () => submit(hand.store, send));
      const { placed } = expectAnswer(again, "packetsSent");
      assert.deepEqual(kindsOf(placed), ["claimed", "due"]);
      assert.equal((await hand.claim()).claimed.length, 1);
    }),

    packetCase("the same send, sent again after its first packet is done, sends nothing twice", async (scene) => {
      const hand = await handOf(scene);
      const execution = await hand.trigger({ queue: "root" });
      const send = hand.sendOf([hand.packet({ execution, claim: true }), hand.packet({ execution, queue: "other" })]);
      const { placed } = expectAnswer(await submit(hand.store, send), "packetsSent");
      await hand.done(placed[0]?.kind === "claimed" ? placed[0].packet : assert.fail());
      const again = await unchanged(hand.store, () => submit(hand.store, send));
      assert.deepEqual(kindsOf(expectAnswer(again, "packetsSent").placed), ["duplicate", "due"]);
    }),

    packetCase("the same trigger, sent again after its packets are done, is recognised", async (scene) => {
      const hand = await handOf(scene);
      const execution = hand.execution();
      const send = hand.sendOf([hand.packet({ execution: execution.no })], execution);
      await submit(hand.store, send);
      await hand.done(await hand.take());
      const again = await unchanged(hand.store, () => submit(hand.store, send));
      assert.deepEqual(kindsOf(expectAnswer(again, "packetsSent").placed), ["duplicate"]);
    }),

    packetCase("a trigger begins an execution, which counts its open packets", async (scene) => {
      const hand = await handOf(scene);
      const execution = hand.execution({ entry: "start", input: '{"n":1}', flow: "orders" });
      await hand.begin(execution, { claim: true }, {});
      const { createdAt, ...rest } = await executionOf(hand.store, execution.no);
      const fresh = { open: 2, duplicates: 0, dead: 0, endedAt: null, outputs: [] };
      assert.deepEqual(rest, { no: execution.no, flow: "orders", entry: "start", input: '{"n":1}', key: null, ...fresh });
      assert.ok(Math.abs(createdAt - (await timeOf(hand))) < 60_000);
    }),

    packetCase("an execution with no packet to deliver has ended", async (scene) => {
      const hand = await handOf(scene);
      const execution = hand.execution();
      const { ended } = await hand.begin(execution);
      assert.deepEqual(numbersOf(ended), [execution.no]);
      assert.deepEqual(await countersOf(hand.store, execution.no), [0, 0, 0, true]);
    }),

    packetCase("a second trigger with the same key returns the existing execution", async (scene) => {
      const hand = await handOf(scene);
      const key = { scope: "triggers", key: "order 1", fingerprint: "a", retentionMs: dayMs };
      const first = hand.execution({ key });
      await hand.begin(first, {});
      assert.equal((await executionOf(hand.store, first.no)).key, "order 1");
      const trigger = (fingerprint: string | null) => {
        const second = hand.execution({ key: { ...key, fingerprint } });
        return unchanged(hand.store, () => submit(hand.store, hand.sendOf([hand.packet({ execution: second.no })], second)));
      };
      assert.deepEqual(await trigger("a"), { kind: "triggered", execution: first.no, mismatch: false });
      assert.deepEqual(await trigger(null), { kind: "triggered", execution: first.no, mismatch: false });
      assert.deepEqual(await trigger("b"), { kind: "triggered", execution: first.no, mismatch: true });
      const record = (await hand.store.read(key))?.record;
      assert.deepEqual([record?.state, record?.attempt], ["completed", 1]);
    }),

    packetCase("a keyed trigger that is sent again does not count as a duplicate", async (scene) => {
      const hand = await handOf(scene);
      const execution = hand.execution({ key: { scope: "", key: "k", fingerprint: null, retentionMs: null } });
      const send = hand.sendOf([hand.packet({ execution: execution.no })], execution);
      expectAnswer(await submit(hand.store, send), "packetsSent");
      expectAnswer(await unchanged(hand.store, () => submit(hand.store, send)), "packetsSent");
    }),

    packetCase("after the retention of its key, a trigger begins another execution", async (scene) => {
      const hand = await handOf(scene);
      const key = { scope: "", key: "k", fingerprint: "a", retentionMs: shortMs };
      await hand.begin(hand.execution({ key }), {});
      const expiresAt = (await scene.record(key)).expiresAt ?? 0;
      await reach(scene, hand, expiresAt);
      const second = hand.execution({ key: { ...key, fingerprint: "b" } });
      await hand.begin(second, {});
      assert.equal((await executionOf(hand.store, second.no)).open, 1);
    }),

    packetCase(
      "a trigger whose key another operation of the ledger has is refused, the error names the key, and nothing is written",
      async (scene) => {
        const hand = await handOf(scene);
        const key = { scope: "shared", key: "k", fingerprint: null, retentionMs: null };
        await startAndSettle(hand.store, beginOf({ scope: "shared", key: "k" }), completed(1));
        const execution = hand.execution({ key });
        const error = await unchanged(hand.store, () =>
          expectCode(submit(hand.store, hand.sendOf([hand.packet({ execution: execution.no })], execution)), "STORE_REFUSED"),
        );
        assert.match(error.message, /"k".*"shared"/);
      },
    ),

    packetCase("of two sends in one flush, only the one that cannot be written fails", async (scene) => {
      const hand = await handOf(scene);
      await startAndSettle(hand.store, beginOf({ scope: "", key: "taken" }), completed(1));
      const bad = hand.execution({ key: { scope: "", key: "taken", fingerprint: null, retentionMs: null } });
      const good = [hand.packet(), hand.packet()];
      const [first, refused, last] = await Promise.allSettled([
        hand.send(good[0] as (typeof good)[0]),
        submit(hand.store, hand.sendOf([hand.packet({ execution: bad.no })], bad)),
        hand.send(good[1] as (typeof good)[0]),
      ]);
      assert.deepEqual([first.status, refused.status, last.status], ["fulfilled", "rejected", "fulfilled"]);
      assert.deepEqual(numbersOf((await hand.claim()).claimed), numbersOf(good));
    }),

    packetCase("nothing is sent to a flow that is archived", async (scene) => {
      const hand = await handOf(scene);
      await hand.store.packets.setFlowState(flow, "archived");
      const execution = hand.execution();
      const sends = [hand.sendOf([hand.packet({ execution: execution.no })], execution), hand.sendOf([hand.packet()])];
      for (const send of sends) assert.deepEqual(await unchanged(hand.store, () => submit(hand.store, send)), { kind: "archived" });
      const other = hand.packet({ flow: "another" });
      assert.deepEqual(kindsOf(await hand.send(other)), ["due"]);
    }),

    packetCase("a packet sent to a paused flow is due, and is not claimed by its sender", async (scene) => {
      const hand = await handOf(scene);
      const packet = await hand.sendAndClaim({ queue: "before" });
      await hand.store.packets.setFlowState(flow, "paused");
      assert.deepEqual(kindsOf(await hand.send(hand.packet({ claim: true }))), ["due"]);
      assert.deepEqual(kindsOf((await hand.done(packet, hand.packet({ claim: true }))).placed), ["due"]);
      await hand.store.packets.setFlowState(flow, "active");
      assert.equal((await hand.claim()).claimed.length, 2);
    }),

    packetCase("two workers never assign the same packet number", async (scene) => {
      const hands = [await handOf(scene), await handOf(scene), await Hand.on(await scene.open())];
      assert.equal(new Set(numbersOf(hands)).size, 3);
      await hands[0]?.store.packets.leave(hands[2]?.no ?? 0);
      assert.ok(!numbersOf(hands).includes((await handOf(scene)).no));
      for (const hand of hands) assert.deepEqual(kindsOf(await hand.send(hand.packet({ letter, queue }))), ["due"]);
    }),
  ],
};
