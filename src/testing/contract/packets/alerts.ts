import assert from "node:assert/strict";
import type { Alert, DeadLetter, NewPacket } from "../../../core/packets/operation.js";
import type { PacketNote } from "../../../core/packets/packet.js";
import type { ContractGroup } from "../contract-case.js";
import { shortMs } from "../ledger/scene.js";
import { handOf, packetCase, reach, sendSafely } from "./packet-case.js";
import { dead, type Hand, keyOf, kindsOf, letter, numbersOf, packetOf, partOf } from "./packet-operations.js";

const alerts = "alerts";

function alertOf(hand: Hand): Alert {
  const no = hand.number();
  return { no, queue: alerts, payload: `"alert ${no}"` };
}

/** The dead-letter options of a packet with an alert, and that alert. */
function alerting(hand: Hand): { readonly letter: DeadLetter; readonly alert: Alert } {
  const alert = alertOf(hand);
  return { letter: { ...letter, alert }, alert };
}

/** Asserts that the alert was sent as a due packet, with the reason of the dead letter. */
async function expectSent(hand: Hand, { no, payload }: Alert, note: PacketNote): Promise<void> {
  const sent = await hand.take(alerts);
  const { execution, attempt } = sent;
  assert.deepEqual(
    { no: sent.no, payload: sent.payload, note: sent.note, execution, attempt },
    { no, payload, note, execution: null, attempt: 1 },
  );
  await hand.done(sent);
}

async function expectNone(hand: Hand): Promise<void> {
  assert.deepEqual(numbersOf((await hand.claimFrom(alerts)).claimed), []);
}

const key = keyOf("k", { fingerprint: "a" });
const other: NewPacket["key"] = { ...key, fingerprint: "b", onMismatch: "deadLetter" };

/** A part becomes a dead letter at once if its execution has no other open packet. */
async function deadPart(hand: Hand): Promise<{ readonly no: number; readonly alert: Alert }> {
  const made = alerting(hand);
  await hand.trigger({ join: partOf("a"), letter: made.letter });
  const [no] = numbersOf(await hand.store.packets.deadLetters({ limit: 1 }));
  assert.ok(no);
  return { no, alert: made.alert };
}

export const alertingOfLetters: ContractGroup = {
  verb: "alert",
  cases: [
    packetCase("a part that has waited too long: alert in the claim that finds it", async (scene) => {
      const hand = await handOf(scene);
      const { letter, alert } = alerting(hand);
      const execution = await hand.trigger({ queue: "root" }, { join: partOf("a", { waitMs: shortMs }), letter });
      const [part] = (await hand.store.packets.packetsOf(execution, 10)).filter(({ state }) => state === "part");
      await reach(scene, hand, part?.dueAt ?? 0);
      await expectNone(hand);
      assert.equal((await hand.claim()).closed.length, 1);
      await expectSent(hand, alert, "joinTimeout");
    }),

    packetCase(
      "a part that is closed: alert in the settle that closes it; the worker reports the packet that it settled",
      async (scene) => {
        const hand = await handOf(scene);
        const [branch, part] = [alerting(hand), alerting(hand)];
        await hand.trigger({ letter: branch.letter }, { join: partOf("a"), letter: part.letter });
        await hand.settle(await hand.take(), dead);
        await expectSent(hand, part.alert, "joinClosed");
        await expectNone(hand);
      },
    ),

    packetCase("a mismatch: alert when it is found at send, at claim, or after the packet was held", async (scene) => {
      const hand = await handOf(scene);
      const [atOnce, claimed, held] = [alerting(hand), alerting(hand), alerting(hand)];
      const first = await hand.sendAndClaim({ key });
      assert.deepEqual(kindsOf(await hand.send(hand.packet({ key: other, letter: held.letter, claim: true }))), ["held"]);
      await expectNone(hand);
      await hand.done(first);
      await expectSent(hand, held.alert, "mismatch");
      assert.deepEqual(kindsOf(await hand.send(hand.packet({ key: other, letter: atOnce.letter, claim: true }))), ["dead"]);
      await expectSent(hand, atOnce.alert, "mismatch");
      const packet = hand.packet({ key: other, letter: claimed.letter });
      await hand.send(packet);
      assert.equal((await hand.claim()).closed.length, 1);
      await expectSent(hand, claimed.alert, "mismatch");
      assert.equal((await packetOf(hand.store, packet.no)).note, "mismatch");
    }),

    packetCase("no alert for a packet that is acknowledged, delivered, or sent as a dead letter", async (scene) => {
      const hand = await handOf(scene);
      const { letter } = alerting(hand);
      await hand.done(await hand.sendAndClaim({ key, letter }));
      const mismatch = { ...other, onMismatch: "acknowledge" } as const;
      await hand.send(hand.packet({ key: mismatch, letter, claim: true }), hand.packet({ letter, failed: '["wrong"]' }));
      await expectNone(hand);
    }),

    packetCase("one alert, even if the operation that made the letter is sent again", async (scene) => {
      const hand = await handOf(scene);
      await hand.done(await hand.sendAndClaim({ key }));
      const { letter, alert } = alerting(hand);
      const execution = hand.execution();
      const send = hand.sendOf([hand.packet({ execution: execution.no, key: other, letter, claim: true })], execution);
      for (let i = 0; i < 3; i += 1) await sendSafely(scene, hand.store, send);
      await expectSent(hand, alert, "mismatch");
      await sendSafely(scene, hand.store, send);
      await expectNone(hand);
    }),

    packetCase("one alert, even if the letter is gone when the operation is sent again and it began no execution", async (scene) => {
      const hand = await handOf(scene);
      await hand.done(await hand.sendAndClaim({ key }));
      const { letter, alert } = alerting(hand);
      const packet = hand.packet({ key: other, letter, claim: true });
      await hand.send(packet);
      await hand.store.packets.discard(packet.no);
      assert.deepEqual(kindsOf(await hand.send(packet)), ["duplicate"]);
      await expectSent(hand, alert, "mismatch");
    }),

    packetCase(
      "a re-injected letter is alerted again under another number, because the first alert may still be in flight",
      async (scene) => {
        const hand = await handOf(scene);
        const { no, alert } = await deadPart(hand);
        const first = await hand.take(alerts);
        const next = alertOf(hand);
        assert.equal(await hand.store.packets.reinject(no, next), true);
        await expectNone(hand);
        // The part waits for the other port in an execution that has ended: the next packet that ends there closes the part again.
        const { execution } = await packetOf(hand.store, no);
        await hand.done(await hand.sendAndClaim({ execution }));
        assert.equal((await packetOf(hand.store, no)).note, "joinClosed");
        await expectSent(hand, next, "joinClosed");
        await hand.done(first);
        assert.equal(first.no, alert.no);
      },
    ),

    packetCase("no alert for a letter that was re-injected without one", async (scene) => {
      const hand = await handOf(scene);
      await hand.done(await hand.sendAndClaim({ key }));
      const { letter, alert } = alerting(hand);
      const packet = hand.packet({ key: other, letter });
      await hand.send(packet);
      await hand.claim();
      await expectSent(hand, alert, "mismatch");
      await hand.store.packets.reinject(packet.no);
      assert.equal((await hand.claim()).closed.length, 1);
      await expectNone(hand);
    }),
  ],
};
