import assert from "node:assert/strict";
import type { PacketAct } from "../../../core/packets/operation.js";
import type { NewLogEntry } from "../../../core/runs/log.js";
import type { ContractGroup } from "../contract-case.js";
import { handOf, packetCase, unchanged } from "./packet-case.js";
import { dead, flow, type Hand, numbersOf } from "./packet-operations.js";

function entryOf(id: string, more: Partial<NewLogEntry> = {}): NewLogEntry {
  return { id, actor: "ann", action: "retryDeadLetter", subject: "pk_1", reason: "the bank is up", detail: null, ...more };
}

/** `count` dead letters. */
async function lettersOf(hand: Hand, count: number): Promise<{ readonly no: number }[]> {
  const packets = [];
  for (let i = 0; i < count; i++) packets.push(await hand.sendAndClaim());
  for (const packet of packets) await hand.settle(packet, dead);
  return packets.map(({ no }) => ({ no }));
}

export const actions: ContractGroup = {
  verb: "action",
  cases: [
    packetCase("a retry is in the operator log, and sent again does nothing and answers alike", async (scene) => {
      const hand = await handOf(scene);
      const { packets, runs } = hand.store;
      const letters = await lettersOf(hand, 1);
      const act: PacketAct = { log: entryOf("a-1"), change: { kind: "retry", letters } };
      const first = await packets.act(act);
      assert.ok(first.kind === "acted" && !first.repeated);
      const { no, at, ...entry } = first.entry;
      assert.deepEqual(entry, act.log);
      assert.ok(Number.isSafeInteger(no) && Number.isSafeInteger(at));
      const again = await hand.take();
      assert.deepEqual([again.no, again.attempt, again.since], [letters[0]?.no, 2, 1]);
      await hand.settle(again, dead);
      const repeated = await unchanged(hand.store, () => packets.act(act));
      assert.deepEqual(repeated, { ...first, repeated: true });
      assert.deepEqual(await runs.log({ limit: 10 }), [first.entry]);
    }),

    packetCase("a discard removes dead letters and is logged once, also if it is sent twice at the same time", async (scene) => {
      const hand = await handOf(scene);
      const other = await handOf(scene);
      const [first, second, rest] = await lettersOf(hand, 3);
      const letters = [first, second] as { readonly no: number }[];
      const act: PacketAct = { log: entryOf("a-1", { action: "discardDeadLetter" }), change: { kind: "discard", letters } };
      const answers = await Promise.all([hand.store.packets.act(act), other.store.packets.act(act)]);
      assert.deepEqual(answers.map((answer) => answer.kind === "acted" && answer.repeated).sort(), [false, true]);
      assert.deepEqual(numbersOf(await hand.store.packets.deadLetters({ limit: 10 })), [rest?.no]);
      assert.equal((await hand.store.runs.log({ limit: 10 })).length, 1);
    }),

    packetCase("what is not a dead letter is not changed, and nothing is logged", async (scene) => {
      const hand = await handOf(scene);
      const { packets, runs } = hand.store;
      const live = hand.packet();
      await hand.send(live);
      for (const no of [live.no, 12_345])
        for (const kind of ["retry", "discard"] as const) {
          const act: PacketAct = { log: entryOf(`${kind} ${no}`), change: { kind, letters: [{ no }] } };
          assert.deepEqual(await unchanged(hand.store, () => packets.act(act)), { kind: "absent" });
        }
      assert.deepEqual(await runs.log({ limit: 10 }), []);
    }),

    packetCase("an id that the log has for something else changes nothing", async (scene) => {
      const hand = await handOf(scene);
      const { packets } = hand.store;
      const [one, two] = (await lettersOf(hand, 2)) as [{ readonly no: number }, { readonly no: number }];
      await packets.act({ log: entryOf("a-1"), change: { kind: "retry", letters: [one] } });
      const act: PacketAct = { log: entryOf("a-1", { subject: "pk_2" }), change: { kind: "discard", letters: [two] } };
      const answer = await unchanged(hand.store, () => packets.act(act));
      assert.ok(answer.kind === "acted" && answer.repeated && answer.entry.subject === "pk_1");
    }),

    packetCase("the state of a flow is set and logged once: a repetition does not set it again", async (scene) => {
      const hand = await handOf(scene);
      const { packets, runs } = hand.store;
      const acts = (["paused", "archived", "active"] as const).map(
        (state): PacketAct => ({
          log: entryOf(`to ${state}`, { action: state, subject: `flow:${flow}` }),
          change: { kind: "flow", flow, state },
        }),
      );
      for (const act of acts) {
        assert.ok((await packets.act(act)).kind === "acted");
        assert.equal(await packets.flowState(flow), act.change.kind === "flow" && act.change.state);
      }
      const [pause] = acts as [PacketAct];
      const answer = await packets.act(pause);
      assert.ok(answer.kind === "acted" && answer.repeated);
      assert.equal(await packets.flowState(flow), "active");
      assert.deepEqual(
        (await runs.log({ subject: `flow:${flow}`, limit: 10 })).map(({ action }) => action),
        ["active", "archived", "paused"],
      );
    }),
  ],
};
