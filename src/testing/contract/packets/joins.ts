import assert from "node:assert/strict";
import type { ContractGroup } from "../contract-case.js";
import { shortMs } from "../ledger/scene.js";
import { handOf, packetCase, reach } from "./packet-case.js";
import { countersOf, dead, executionOf, keyOf, kindsOf, notesOf, numbersOf, packetOf, partOf, queue } from "./packet-operations.js";

const [a, b] = [partOf("a"), partOf("b")];

export const joining: ContractGroup = {
  verb: "join",
  cases: [
    packetCase("the packet that fills the last port takes the others with it", async (scene) => {
      const hand = await handOf(scene);
      const execution = await hand.trigger({ queue: "root" });
      const root = await hand.take("root");
      const [first, last] = [
        hand.packet({ execution, join: a, payload: '"a"', claim: true }),
        hand.packet({ execution, join: b, payload: '"b"', claim: true }),
      ];
      const { placed } = await hand.done(root, first, last);
      assert.deepEqual(kindsOf(placed), ["part", "claimed"]);
      const joined = await packetOf(hand.store, last.no);
      assert.deepEqual([joined.payload, joined.parts], ['"b"', { a: { no: first.no, payload: '"a"' } }]);
      assert.equal(await hand.store.packets.packet(first.no), undefined);
      assert.deepEqual(await countersOf(hand.store, execution), [1, 0, 0, false]);
      const { ended } = await hand.done(joined);
      assert.deepEqual(numbersOf(ended), [execution]);
    }),

    packetCase("a part alone is not delivered, and does not count as open", async (scene) => {
      const hand = await handOf(scene);
      const execution = await hand.trigger({ queue: "root" }, { join: a });
      assert.deepEqual((await hand.claim()).claimed, []);
      assert.deepEqual(await countersOf(hand.store, execution), [1, 0, 0, false]);
      const [count] = (await hand.store.packets.counts()).filter((each) => each.queue === queue);
      assert.deepEqual([count?.parts, count?.due], [1, 0]);
    }),

    packetCase("three ports, filled in any order; the joined packet is due if its sender does not claim it", async (scene) => {
      const hand = await handOf(scene);
      const ports = { ports: ["a", "b", "c"] };
      const execution = await hand.trigger({ queue: "root" });
      const parts = ["c", "a", "b"].map((port) => hand.packet({ execution, join: partOf(port, ports), payload: `"${port}"` }));
      assert.deepEqual(kindsOf(await hand.send(...parts)), ["part", "part", "due"]);
      const joined = await hand.take();
      assert.deepEqual(Object.keys(joined.parts ?? {}).sort(), ["a", "c"]);
      assert.equal(joined.payload, '"b"');
    }),

    packetCase("of several packets at one port, the first one is joined first", async (scene) => {
      const hand = await handOf(scene);
      const execution = await hand.trigger({ queue: "root" });
      const firsts = ["1", "2", "3"].map((payload) => hand.packet({ execution, join: a, payload }));
      await hand.send(...firsts);
      const [x, y] = [hand.packet({ execution, join: b, claim: true }), hand.packet({ execution, join: b, claim: true })];
      await hand.send(x, y);
      assert.deepEqual(
        [(await packetOf(hand.store, x.no)).parts?.a, (await packetOf(hand.store, y.no)).parts?.a],
        firsts.slice(0, 2).map(({ no, payload }) => ({ no, payload })),
      );
    }),

    packetCase("other nodes and other executions have their own parts", async (scene) => {
      const hand = await handOf(scene);
      const [one, two] = [await hand.trigger({ queue: "root" }), await hand.trigger({ queue: "root" })];
      const placed = await hand.send(
        hand.packet({ execution: one, join: a }),
        hand.packet({ execution: two, join: b }),
        hand.packet({ execution: one, join: partOf("b", { node: "other" }) }),
        hand.packet({ execution: one, join: b }),
      );
      assert.deepEqual(kindsOf(placed), ["part", "part", "part", "due"]);
    }),

    packetCase("the joined packet has the key of the first port that has one", async (scene) => {
      const hand = await handOf(scene);
      const execution = await hand.trigger({ queue: "root" });
      const ports = { ports: ["a", "b", "c"] };
      const part = (port: string, key: string | null) =>
        hand.packet({ execution, join: partOf(port, ports), key: key === null ? null : keyOf(key), claim: true });
      const last = part("a", null);
      await hand.send(part("c", "of c"), part("b", "of b"), last);
      assert.deepEqual((await packetOf(hand.store, last.no)).key?.key, "of b");
      assert.equal((await scene.record(keyOf("of b"))).owner, `packet:${last.no}`);
    }),

    packetCase("a part that has waited too long becomes a dead letter with its reason", async (scene) => {
      const hand = await handOf(scene);
      const execution = await hand.trigger({ queue: "root" }, { join: partOf("a", { waitMs: shortMs }) });
      const [part] = (await hand.store.packets.packetsOf(execution, 10)).filter(({ state }) => state === "part");
      assert.ok(part);
      await reach(scene, hand, part.dueAt);
      const { claimed, closed } = await hand.claim();
      assert.deepEqual([claimed, closed.map(({ no, to, note }) => [no, to, note])], [[], [[part.no, "dead", "joinTimeout"]]]);
      assert.equal((await packetOf(hand.store, part.no)).note, "joinTimeout");
      assert.deepEqual(await notesOf(hand.store, execution), ["joinTimeout"]);
      assert.deepEqual(await countersOf(hand.store, execution), [1, 0, 1, false]);
    }),

    packetCase("closed by a dead branch: the part is a dead letter, and the execution has ended", async (scene) => {
      const hand = await handOf(scene);
      const execution = await hand.trigger({}, { join: a });
      const { ended, woken } = await hand.settle(await hand.take(), dead);
      assert.deepEqual([numbersOf(ended), woken.map(({ to, note }) => [to, note])], [[execution], [["dead", "joinClosed"]]]);
      assert.deepEqual(await countersOf(hand.store, execution), [0, 0, 2, true]);
      assert.deepEqual(await notesOf(hand.store, execution), ["dead", "joinClosed"]);
      const letters = await hand.store.packets.deadLetters({ limit: 10 });
      assert.deepEqual(letters.map(({ note }) => note).sort(), ["joinClosed", null].sort());
    }),

    packetCase("closed by a branch that was a duplicate: the part is closed as such", async (scene) => {
      const hand = await handOf(scene);
      await hand.done(await hand.sendAndClaim({ key: keyOf("k"), queue: "other" }));
      const execution = await hand.trigger({ key: keyOf("k") }, { join: a });
      const { closed, ended } = await hand.claim();
      assert.deepEqual([closed.map(({ to }) => to), numbersOf(ended)], [["duplicate", "closed"], [execution]]);
      assert.deepEqual(await countersOf(hand.store, execution), [0, 2, 0, true]);
      assert.deepEqual(await hand.store.packets.deadLetters({ limit: 10 }), []);
      const notes = await hand.store.packets.notes(execution, 10);
      assert.deepEqual(
        notes.map(({ kind, about }) => [kind, about]),
        [
          ["duplicate", "k"],
          ["joinClosed", "duplicate"],
        ],
      );
    }),

    packetCase("closed by a branch that sent nothing there: the part is a dead letter", async (scene) => {
      const hand = await handOf(scene);
      const execution = await hand.trigger({}, { join: a });
      await hand.done(await hand.take());
      assert.deepEqual(await countersOf(hand.store, execution), [0, 0, 1, true]);
    }),

    packetCase("a trigger that only sends parts has no open packet: the parts are closed at once", async (scene) => {
      const hand = await handOf(scene);
      const execution = await hand.trigger({ join: a });
      assert.deepEqual(await countersOf(hand.store, execution), [0, 0, 1, true]);
    }),

    packetCase("two parts that are dead letters are joined when both are re-injected, and the execution continues", async (scene) => {
      const hand = await handOf(scene);
      const execution = await hand.trigger({ join: a, payload: '"a"' });
      const [part] = numbersOf(await hand.store.packets.deadLetters({ limit: 1 }));
      await hand.store.packets.reinject(part as number);
      // The execution has no other open packet, but the part waits, because an operator retried it.
      assert.equal((await packetOf(hand.store, part as number)).state, "part");
      assert.deepEqual(await countersOf(hand.store, execution), [0, 0, 0, true]);
      await hand.send(hand.packet({ execution, join: b, payload: '"b"' }));
      assert.deepEqual(await countersOf(hand.store, execution), [1, 0, 0, false]);
      const joined = await hand.take();
      assert.deepEqual(joined.parts?.a?.payload, '"a"');
      assert.deepEqual(numbersOf((await hand.done(joined)).ended), [execution]);
      assert.notEqual((await executionOf(hand.store, execution)).endedAt, null);
    }),

    packetCase("a joined packet is retried and becomes a dead letter with its parts", async (scene) => {
      const hand = await handOf(scene);
      const execution = await hand.trigger({ queue: "root" });
      await hand.send(hand.packet({ execution, join: a, payload: '"a"' }));
      const joined = await hand.sendAndClaim({ execution, join: b });
      await hand.settle(joined, dead);
      await hand.store.packets.reinject(joined.no);
      const again = await hand.take();
      assert.deepEqual([again.no, again.parts?.a?.payload, again.attempt - again.since], [joined.no, '"a"', 1]);
    }),

    packetCase("a packet joined into a lane takes its place in the lane", async (scene) => {
      const hand = await handOf(scene);
      const lane = { name: "lane", deadBlocks: false };
      const execution = await hand.trigger({ queue: "root" });
      const head = await hand.sendAndClaim({ execution, lane });
      assert.deepEqual(kindsOf(await hand.send(hand.packet({ execution, join: a, lane }), hand.packet({ execution, join: b, lane }))), [
        "part",
        "held",
      ]);
      await hand.done(head);
      assert.ok((await hand.take()).parts?.a);
    }),
  ],
};
