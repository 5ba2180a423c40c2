import assert from "node:assert/strict";
import { type ExecutionRecord, notesMax, outputsMax } from "../../../core/packets/packet.js";
import type { ContractGroup } from "../contract-case.js";
import { handOf, packetCase } from "./packet-case.js";
import {
  countersOf,
  dead,
  done,
  executionMembers,
  executionOf,
  flow,
  type Hand,
  kept,
  keyOf,
  kindsOf,
  notesOf,
  numbersOf,
  retry,
  submit,
} from "./packet-operations.js";

async function listed(hand: Hand, no: number): Promise<ExecutionRecord> {
  const found = (await hand.store.packets.executions({ limit: 100 })).find((execution) => execution.no === no);
  return executionMembers(found ?? assert.fail());
}

export const executing: ContractGroup = {
  verb: "execution",
  cases: [
    packetCase("an execution ends when none of its packets is open, and not before", async (scene) => {
      const hand = await handOf(scene);
      const execution = await hand.trigger({});
      const first = await hand.take();
      const fork = [hand.packet({ execution, claim: true }), hand.packet({ execution, claim: true })];
      const { placed, ended } = await hand.done(first, ...fork);
      assert.deepEqual([kindsOf(placed), ended], [["claimed", "claimed"], []]);
      assert.deepEqual(await countersOf(hand.store, execution), [2, 0, 0, false]);
      const [left, right] = placed.map((each) => (each.kind === "claimed" ? each.packet : assert.fail()));
      assert.ok(left && right);
      await hand.settle(left, retry());
      assert.deepEqual((await hand.done(right)).ended, []);
      const last = await hand.take();
      const { now, ended: over } = await hand.done(last);
      assert.deepEqual(numbersOf(over), [execution]);
      assert.equal((await executionOf(hand.store, execution)).endedAt, now);
    }),

    packetCase("a chain of nodes always has one open packet", async (scene) => {
      const hand = await handOf(scene);
      const execution = await hand.trigger({});
      let packet = await hand.take();
      for (let i = 0; i < 5; i++) {
        const { placed } = await hand.done(packet, hand.packet({ execution, claim: true, queue: `edge ${i}` }));
        assert.deepEqual(await countersOf(hand.store, execution), [1, 0, 0, false]);
        packet = placed[0]?.kind === "claimed" ? placed[0].packet : assert.fail();
      }
      assert.deepEqual(numbersOf((await hand.done(packet)).ended), [execution]);
    }),

    packetCase("an execution with a dead letter is dead, and runs again when the letter is re-injected", async (scene) => {
      const hand = await handOf(scene);
      const execution = await hand.trigger({});
      const packet = await hand.take();
      await hand.settle(packet, dead);
      assert.deepEqual(await countersOf(hand.store, execution), [0, 0, 1, true]);
      const still = async () => (await hand.store.packets.packetsOf(execution, 10)).map(({ no, state }) => `${no} ${state}`);
      assert.deepEqual(await still(), [`${packet.no} dead`]);
      await hand.store.packets.reinject(packet.no);
      assert.deepEqual(await still(), [`${packet.no} due`]);
      assert.deepEqual(await countersOf(hand.store, execution), [1, 0, 0, false]);
      assert.deepEqual(numbersOf((await hand.done(await hand.take())).ended), [execution]);
      assert.deepEqual(await notesOf(hand.store, execution), ["dead", "reinjected"]);
    }),

    packetCase("outputs that no edge takes are kept with the execution, in commit order, up to a limit", async (scene) => {
      const hand = await handOf(scene);
      const execution = await hand.trigger({});
      const first = await hand.take();
      const next = hand.packet({ execution, claim: true });
      await submit(hand.store, hand.settleOf(first, done, [next], ['"1"', '"2"']));
      const packet = (await hand.store.packets.packet(next.no)) ?? assert.fail();
      const many = Array.from({ length: outputsMax }, (_, i) => `"more ${i}"`);
      await submit(hand.store, hand.settleOf(packet, done, [], many));
      const { outputs } = await executionOf(hand.store, execution);
      assert.deepEqual(outputs, ['"1"', '"2"', ...many.slice(0, outputsMax - 2)]);
    }),

    packetCase("exceptions are kept as notes, up to a limit, and all of them are counted", async (scene) => {
      const hand = await handOf(scene);
      const key = keyOf("k");
      await hand.done(await hand.sendAndClaim({ key }));
      const execution = await hand.trigger({});
      const many = (length: number, queue: string) => Array.from({ length }, () => hand.packet({ execution, claim: true, key, queue }));
      const { placed } = await hand.done(await hand.take(), ...many(notesMax - 2, "first"), hand.packet({ execution, claim: true }));
      const last = placed.at(-1);
      assert.ok(last?.kind === "claimed");
      await hand.done(last.packet, ...many(5, "more"));
      const notes = await hand.store.packets.notes(execution, notesMax + 10);
      assert.deepEqual([notes.length, notes.filter(({ queue }) => queue === "more").length], [notesMax, 2]);
      assert.deepEqual(await countersOf(hand.store, execution), [0, notesMax + 3, 0, true]);
    }),

    packetCase("outputs of a settle that is sent again are stored once", async (scene) => {
      const hand = await handOf(scene);
      const execution = await hand.trigger({});
      const settle = hand.settleOf(await hand.take(), done, [], ['"out"']);
      await submit(hand.store, settle);
      await submit(hand.store, settle);
      assert.deepEqual((await executionOf(hand.store, execution)).outputs, ['"out"']);
    }),

    packetCase("a kept packet stays until its execution ends, and has no owner meanwhile", async (scene) => {
      const hand = await handOf(scene);
      const execution = await hand.trigger({ payload: '"stage 1"' });
      const first = await hand.take();
      const { placed } = await hand.settle(first, kept, hand.packet({ execution, claim: true }));
      const stay = (await hand.store.packets.packetsOf(execution, 10)).find(({ state }) => state === "kept");
      assert.deepEqual([stay?.no, stay?.payload, stay?.owner], [first.no, '"stage 1"', null]);
      assert.deepEqual((await hand.claim()).claimed, []);
      assert.deepEqual(await countersOf(hand.store, execution), [1, 0, 0, false]);
      const next = placed[0]?.kind === "claimed" ? placed[0].packet : assert.fail();
      await hand.done(next);
      assert.deepEqual(await hand.store.packets.packetsOf(execution, 10), []);
    }),

    packetCase("the last packet of an execution is not kept, nor one without an execution", async (scene) => {
      const hand = await handOf(scene);
      const execution = await hand.trigger({});
      await hand.settle(await hand.take(), kept);
      assert.deepEqual(await hand.store.packets.packetsOf(execution, 10), []);
      const alone = await hand.sendAndClaim();
      await hand.settle(alone, kept);
      assert.equal(await hand.store.packets.packet(alone.no), undefined);
    }),

    packetCase("notes are returned in order, with their subject", async (scene) => {
      const hand = await handOf(scene);
      const execution = await hand.trigger({}, {});
      const [one, two] = (await hand.claim()).claimed;
      assert.ok(one && two);
      await hand.settle(one, { kind: "done", keep: false, note: "skipped" });
      const { now } = await hand.settle(two, { ...dead, note: "lateSuccess" });
      const notes = await hand.store.packets.notes(execution, 10);
      assert.deepEqual(
        notes.map(({ kind, packet, queue }) => [kind, packet, queue]),
        [
          ["skipped", one.no, "edge"],
          ["dead", two.no, "edge"],
          ["lateSuccess", two.no, "edge"],
        ],
      );
      assert.equal(notes[1]?.at, now);
      assert.equal((await hand.store.packets.notes(execution, 1)).length, 1);
    }),

    packetCase("packets that are added to an execution count in it", async (scene) => {
      const hand = await handOf(scene);
      const execution = await hand.trigger({});
      await hand.send(hand.packet({ execution }));
      assert.deepEqual(await countersOf(hand.store, execution), [2, 0, 0, false]);
      assert.equal((await hand.store.packets.packetsOf(execution, 10)).length, 2);
      assert.equal((await hand.store.packets.packetsOf(execution, 1)).length, 1);
    }),

    packetCase("scope and attributes come back with the execution; one without them has neither member", async (scene) => {
      const hand = await handOf(scene);
      const labels = { scope: "tenant ü", attributes: { customer: "c-1", "a.b-c": true, priority: -0.5 } };
      const made = hand.execution(labels);
      await hand.begin(made, { claim: true });
      const plain = hand.execution();
      await hand.begin(plain, { claim: true });
      const ended = hand.execution({ scope: "t" });
      await hand.begin(ended);
      for (const look of [(no: number) => executionOf(hand.store, no), async (no: number) => await listed(hand, no)]) {
        const { scope, attributes } = await look(made.no);
        assert.deepEqual({ scope, attributes }, labels);
        const found = await look(plain.no);
        assert.deepEqual(["scope" in found, "attributes" in found], [false, false]);
        const short = await look(ended.no);
        assert.deepEqual([short.scope, "attributes" in short, short.open], ["t", false, 0]);
      }
    }),

    packetCase("found by scope and by attribute, newest first, in pages, and gone with the execution", async (scene) => {
      const hand = await handOf(scene);
      const made: number[] = [];
      for (let i = 0; i < 6; i++) {
        const attributes = { n: i % 2, customer: "c", ...(i === 0 && { rare: "1" }) };
        const of = hand.execution({ flow: i < 3 ? flow : "other", ...(i % 3 !== 0 && { scope: `s${i % 3}` }), attributes });
        await hand.begin({ ...of, retentionMs: 0 }, { claim: true });
        made.push(of.no);
      }
      await hand.trigger({ claim: true });
      const list = async (query: object) => numbersOf(await hand.store.packets.executions({ limit: 100, ...query }));
      const all = [5, 4, 3, 2, 1, 0];
      const numbered = (indexes: readonly number[]) => indexes.map((i) => made[i]);
      const attribute = (name: string, text: string) => ({ attribute: { name, text } });
      assert.deepEqual(await list(attribute("customer", '"c"')), numbered(all));
      assert.deepEqual(await list(attribute("n", "1")), numbered([5, 3, 1]));
      assert.deepEqual(await list(attribute("rare", '"1"')), numbered([0]));
      // A number is not the text of the number.
      assert.deepEqual(await list(attribute("n", '"1"')), []);
      assert.deepEqual(await list({ scope: "s1" }), numbered([4, 1]));
      assert.deepEqual(await list({ scope: "s2", ...attribute("n", "1") }), numbered([5]));
      assert.deepEqual(await list({ scope: "", ...attribute("customer", '"c"') }), numbered([3, 0]));
      assert.equal((await list({ scope: "" })).length, 3);
      assert.deepEqual(await list({ scope: "s1", flow }), numbered([1]));
      assert.deepEqual(await list({ flow: "other", ...attribute("n", "0") }), numbered([4]));
      assert.deepEqual(await list({ status: "completed", scope: "s1" }), []);
      for (const query of [attribute("customer", '"c"'), { scope: "s2", ...attribute("customer", '"c"') }, { scope: "s1" }]) {
        const whole = await hand.store.packets.executions({ limit: 100, ...query });
        const paged: number[] = [];
        for (let before: { at: number; no: number } | undefined; ; ) {
          const page = await hand.store.packets.executions({ limit: 1, ...query, ...(before && { before }) });
          paged.push(...numbersOf(page));
          const last = page.at(-1);
          if (last === undefined) break;
          before = { at: last.createdAt, no: last.no };
        }
        assert.deepEqual(paged, numbersOf(whole));
      }
      for (const no of made) await hand.done((await hand.store.packets.packetsOf(no, 1))[0] ?? assert.fail());
      assert.deepEqual(await list({ status: "completed", scope: "s1" }), numbered([4, 1]));
      await scene.until("the executions are purged", async () => {
        await hand.store.packets.purge(100);
        return (await list(attribute("customer", '"c"'))).length === 0;
      });
      assert.deepEqual(await list({ scope: "s1" }), []);
    }),

    packetCase("listed newest first, by flow and status, in pages", async (scene) => {
      const hand = await handOf(scene);
      const made: number[] = [];
      for (let i = 0; i < 7; i++) {
        const execution = hand.execution({ flow: i % 2 === 0 ? flow : "other" });
        await hand.begin(execution, { claim: true });
        made.unshift(execution.no);
      }
      const list = async (query: object) => numbersOf(await hand.store.packets.executions({ limit: 100, ...query }));
      assert.deepEqual(await list({}), made);
      assert.deepEqual(
        await list({ flow: "other" }),
        made.filter((_, i) => i % 2 === 1),
      );
      const paged: number[] = [];
      for (let before: { at: number; no: number } | undefined; ; ) {
        const page = await hand.store.packets.executions({ limit: 3, ...(before && { before }) });
        paged.push(...numbersOf(page));
        const last = page.at(-1);
        if (last === undefined) break;
        before = { at: last.createdAt, no: last.no };
      }
      assert.deepEqual(paged, made);
      const [dying, ending] = await Promise.all(made.slice(0, 2).map((no) => hand.store.packets.packetsOf(no, 1)));
      assert.ok(dying?.[0] && ending?.[0]);
      await hand.settle(dying[0], dead);
      await hand.done(ending[0]);
      assert.deepEqual(await list({ status: "dead" }), made.slice(0, 1));
      assert.deepEqual(await list({ status: "completed" }), made.slice(1, 2));
      assert.deepEqual(await list({ status: "running" }), made.slice(2));
      assert.deepEqual(
        await list({ status: "running", flow: "other" }),
        made.slice(2).filter((no) => made.indexOf(no) % 2 === 1),
      );
    }),
  ],
};
