import assert from "node:assert/strict";
import type { NewPacket } from "../../../core/packets/operation.js";
import type { ContractGroup } from "../contract-case.js";
import { shortMs } from "../ledger/scene.js";
import { handOf, packetCase, reach as reachTime } from "./packet-case.js";
import { countersOf, dead, type Hand, kept, keyOf, notesOf, numbersOf, packetOf, partOf, submit } from "./packet-operations.js";

const optionalB = { optional: ["b"] };
const both = ["join.a", "join.b"];

/** What a packet needs to be a part of `join` at this port. */
function part(port: string, said: Parameters<typeof partOf>[1] = {}): Partial<NewPacket> {
  return { join: partOf(port, said), reach: [`join.${port}`], payload: `"${port}"` };
}

/** An execution whose first packet was forked: the left branch leads to port a, the right branch to port b. Both are claimed. */
async function fork(hand: Hand) {
  const execution = await hand.trigger({ queue: "root", reach: both });
  const [left, right] = [
    hand.packet({ execution, queue: "left", reach: ["join.a"] }),
    hand.packet({ execution, queue: "right", reach: ["join.b"] }),
  ];
  await hand.done(await hand.take("root"), left, right);
  return { execution, left: await hand.take("left"), right: await hand.take("right") };
}

function partIn(hand: Hand, execution: number, port: string, said?: Parameters<typeof partOf>[1]): NewPacket {
  return hand.packet({ execution, ...part(port, said) });
}

export const releasing: ContractGroup = {
  verb: "release a join",
  cases: [
    packetCase("an optional port that no packet can fill: the node gets the other ports, in the commit of that settle", async (scene) => {
      const hand = await handOf(scene);
      const { execution, left, right } = await fork(hand);
      const waiting = partIn(hand, execution, "a", optionalB);
      assert.deepEqual((await hand.done(left, waiting)).woken, []);
      assert.deepEqual(await countersOf(hand.store, execution), [1, 0, 0, false]);
      const { woken, ended } = await hand.done(right);
      assert.deepEqual([woken.map(({ no, to }) => [no, to]), ended], [[[waiting.no, "due"]], []]);
      assert.deepEqual(await countersOf(hand.store, execution), [1, 0, 0, false]);
      const joined = await hand.take();
      assert.deepEqual([joined.no, joined.payload, joined.parts], [waiting.no, '"a"', {}]);
      assert.deepEqual(numbersOf((await hand.done(joined)).ended), [execution]);
      assert.deepEqual(await notesOf(hand.store, execution), ["joinReleased"]);
    }),

    packetCase("a part that comes when its other port can no longer be filled is delivered at once", async (scene) => {
      const hand = await handOf(scene);
      const { execution, left, right } = await fork(hand);
      await hand.done(right);
      await hand.done(left, partIn(hand, execution, "a", optionalB));
      assert.deepEqual((await hand.take()).parts, {});
    }),

    packetCase("a port that is needed: the part is removed, and the execution is completed", async (scene) => {
      const hand = await handOf(scene);
      const { execution, left, right } = await fork(hand);
      const waiting = partIn(hand, execution, "a");
      await hand.done(left, waiting);
      const { woken, ended } = await hand.done(right);
      assert.deepEqual(
        [woken.map(({ no, to }) => [no, to]), ended.map(({ no, status }) => [no, status])],
        [[[waiting.no, "closed"]], [[execution, "completed"]]],
      );
      assert.equal(await hand.store.packets.packet(waiting.no), undefined);
      assert.deepEqual(await countersOf(hand.store, execution), [0, 0, 0, true]);
      const notes = await hand.store.packets.notes(execution, 10);
      assert.deepEqual(
        notes.map(({ kind, about }) => [kind, about]),
        [["joinSkipped", "join.b"]],
      );
    }),

    packetCase("packets elsewhere in the execution do not delay the decision", async (scene) => {
      const hand = await handOf(scene);
      const { execution, left, right } = await fork(hand);
      await hand.send(hand.packet({ execution, queue: "slow", reach: [] }));
      await hand.done(left, partIn(hand, execution, "a", optionalB));
      await hand.done(right);
      assert.deepEqual((await hand.take()).parts, {});
    }),

    packetCase("a packet that sends the next one of its branch decides nothing", async (scene) => {
      const hand = await handOf(scene);
      const { execution, left, right } = await fork(hand);
      const waiting = partIn(hand, execution, "a", optionalB);
      await hand.done(left, waiting);
      await hand.done(right, hand.packet({ execution, queue: "right 2", reach: ["join.b"] }));
      assert.equal((await packetOf(hand.store, waiting.no)).state, "part");
      // One packet that goes on elsewhere takes the place of one that could fill the port: the number of open packets is the same.
      await hand.done(await hand.take("right 2"), hand.packet({ execution, queue: "slow", reach: [] }));
      assert.equal((await packetOf(hand.store, waiting.no)).state, "due");
    }),

    packetCase("a branch that waits for its retry, and one that was kept to be delivered again", async (scene) => {
      const hand = await handOf(scene);
      const { execution, left, right } = await fork(hand);
      const waiting = partIn(hand, execution, "a", optionalB);
      await hand.done(left, waiting);
      await hand.settle(right, { kind: "retry", delayMs: 0, history: "[]" });
      assert.equal((await packetOf(hand.store, waiting.no)).state, "part");
      await hand.settle(await hand.take("right"), kept);
      assert.equal((await packetOf(hand.store, waiting.no)).state, "due");
    }),

    packetCase("a branch that was a duplicate", async (scene) => {
      const hand = await handOf(scene);
      await hand.done(await hand.sendAndClaim({ key: keyOf("k"), queue: "other" }));
      const { execution, left, right } = await fork(hand);
      await hand.done(left, partIn(hand, execution, "a", optionalB));
      await hand.done(right, hand.packet({ execution, queue: "right 2", reach: ["join.b"], key: keyOf("k") }));
      const { closed } = await hand.claimFrom("right 2");
      assert.deepEqual(closed.map(({ to }) => to).sort(), ["due", "duplicate"]);
      assert.deepEqual((await hand.take()).parts, {});
      assert.deepEqual(await countersOf(hand.store, execution), [1, 1, 0, false]);
    }),

    packetCase("a packet that its sender would have claimed, and that was a duplicate", async (scene) => {
      const hand = await handOf(scene);
      await hand.done(await hand.sendAndClaim({ key: keyOf("k"), queue: "other" }));
      const { execution, left, right } = await fork(hand);
      await hand.done(left, partIn(hand, execution, "a", optionalB));
      const { placed } = await hand.done(
        right,
        hand.packet({ execution, queue: "right 2", reach: ["join.b"], key: keyOf("k"), claim: true }),
      );
      assert.equal(placed[0]?.kind, "duplicate");
      assert.deepEqual((await hand.take()).parts, {});
    }),

    packetCase("a dead letter may be retried, so the join waits; a discarded one fills no port", async (scene) => {
      const hand = await handOf(scene);
      const { execution, left, right } = await fork(hand);
      await hand.send(hand.packet({ execution, queue: "slow", reach: [] }));
      const waiting = partIn(hand, execution, "a", optionalB);
      await hand.done(left, waiting);
      await hand.settle(right, dead);
      assert.equal((await packetOf(hand.store, waiting.no)).state, "part");
      await hand.store.packets.discard(right.no);
      assert.equal((await packetOf(hand.store, waiting.no)).state, "due");
      assert.deepEqual(await countersOf(hand.store, execution), [2, 0, 0, false]);
    }),

    packetCase("a dead branch that is retried fills its port", async (scene) => {
      const hand = await handOf(scene);
      const { execution, left, right } = await fork(hand);
      await hand.send(hand.packet({ execution, queue: "slow", reach: [] }));
      await hand.done(left, partIn(hand, execution, "a", optionalB));
      await hand.settle(right, dead);
      await hand.store.packets.reinject(right.no);
      await hand.done(await hand.take("right"), partIn(hand, execution, "b", optionalB));
      assert.equal((await hand.take()).parts?.a?.payload, '"a"');
    }),

    packetCase("a packet of an edge without dead letters that failed for good fills no port", async (scene) => {
      const hand = await handOf(scene);
      const { execution, left, right } = await fork(hand);
      await hand.done(left, partIn(hand, execution, "a", optionalB));
      await hand.done(right, hand.packet({ execution, queue: "right 2", reach: ["join.b"], letter: null }));
      await hand.settle(await hand.take("right 2"), dead);
      assert.deepEqual((await hand.take()).parts, {});
    }),

    packetCase(
      "when the execution ends with a dead branch, the part is a dead letter; retried after a discard, it is delivered",
      async (scene) => {
        const hand = await handOf(scene);
        const { execution, left, right } = await fork(hand);
        const waiting = partIn(hand, execution, "a", optionalB);
        await hand.done(left, waiting);
        await hand.settle(right, dead);
        assert.deepEqual(await countersOf(hand.store, execution), [0, 0, 2, true]);
        await hand.store.packets.reinject(waiting.no);
        assert.equal((await packetOf(hand.store, waiting.no)).state, "part");
        await hand.store.packets.discard(right.no);
        assert.deepEqual(await countersOf(hand.store, execution), [1, 0, 0, false]);
        assert.deepEqual((await hand.take()).parts, {});
      },
    ),

    packetCase("more packets at one port than at the other: those that are left are decided when the other port is done", async (scene) => {
      const hand = await handOf(scene);
      const { execution, left, right } = await fork(hand);
      const parts = ["1", "2", "3"].map((payload) => ({ ...partIn(hand, execution, "a", optionalB), payload }));
      await hand.done(left, ...parts);
      await hand.done(right, { ...partIn(hand, execution, "b", optionalB), claim: true });
      const { claimed } = await hand.claimFrom("edge");
      assert.deepEqual(
        claimed.map(({ payload, parts: others }) => [payload, others]),
        [
          ["2", {}],
          ["3", {}],
        ],
      );
    }),

    packetCase(
      "three ports, one cannot be filled: the parts of the other two are delivered together, with the first key",
      async (scene) => {
        const hand = await handOf(scene);
        const ports = { ports: ["a", "b", "c"], optional: ["c"] };
        const execution = await hand.trigger({ queue: "root", reach: [...both, "join.c"] });
        const [first, second] = [partIn(hand, execution, "a", ports), { ...partIn(hand, execution, "b", ports), key: keyOf("of b") }];
        await hand.done(await hand.take("root"), second, first);
        const joined = await hand.take();
        assert.deepEqual([joined.no, joined.key?.key], [first.no, "of b"]);
        assert.deepEqual(joined.parts, { b: { no: second.no, payload: '"b"' } });
      },
    ),

    packetCase("a join that is skipped decides the join behind it; one that is delivered does not", async (scene) => {
      const hand = await handOf(scene);
      const last = { node: "last", ports: ["x", "y"], optional: ["y"] };
      for (const optional of [[], ["b"]]) {
        const { execution, left, right } = await forkBefore(hand);
        const waiting = hand.packet({ execution, join: partOf("x", last), reach: ["last.x"] });
        await hand.done(left, waiting, hand.packet({ execution, join: partOf("a", { optional }), reach: ["join.a", "last.y"] }));
        await hand.done(right);
        const state = (await packetOf(hand.store, waiting.no)).state;
        assert.equal(state, optional.length === 0 ? "due" : "part");
        if (optional.length === 0) assert.deepEqual(await notesOf(hand.store, execution), ["joinSkipped", "joinReleased"]);
        const joined = await hand.take();
        if (optional.length === 0) assert.equal(joined.no, waiting.no);
        await hand.done(joined);
        if (optional.length > 0) await hand.done(await hand.take());
        assert.deepEqual(await countersOf(hand.store, execution), [0, 0, 0, true]);
      }
    }),

    packetCase("a part that was released into a lane takes its place in the lane", async (scene) => {
      const hand = await handOf(scene);
      const lane = { name: "lane", deadBlocks: false };
      const { execution, left, right } = await fork(hand);
      const head = await hand.sendAndClaim({ execution, lane, reach: [] });
      const waiting = { ...partIn(hand, execution, "a", optionalB), lane };
      await hand.done(left, waiting);
      await hand.done(right);
      assert.equal((await packetOf(hand.store, waiting.no)).state, "held");
      await hand.done(head);
      assert.equal((await hand.take()).no, waiting.no);
    }),

    packetCase("a part that waited too long, on an edge without dead letters, decides the join behind it", async (scene) => {
      const hand = await handOf(scene);
      const { execution, left } = await fork(hand);
      const last = { node: "last", ports: ["x", "y"], optional: ["y"] };
      const waiting = hand.packet({ execution, queue: "x", join: partOf("x", last), reach: ["last.x"] });
      const short = hand.packet({ execution, join: partOf("a", { waitMs: shortMs }), reach: ["join.a", "last.y"], letter: null });
      await hand.done(left, waiting, short);
      await reachTime(scene, hand, (await packetOf(hand.store, short.no)).dueAt);
      await hand.claim();
      assert.equal(await hand.store.packets.packet(short.no), undefined);
      assert.equal((await packetOf(hand.store, waiting.no)).state, "due");
    }),

    packetCase("a packet whose reach is not known: the join waits until the execution ends", async (scene) => {
      const hand = await handOf(scene);
      const { execution, left, right } = await fork(hand);
      await hand.send(hand.packet({ execution, queue: "old" }));
      const waiting = partIn(hand, execution, "a", optionalB);
      await hand.done(left, waiting);
      await hand.done(right);
      assert.equal((await packetOf(hand.store, waiting.no)).state, "part");
      await hand.done(await hand.take("old"));
      assert.deepEqual((await hand.take()).parts, {});
    }),

    packetCase("a settle that is sent again releases nothing a second time", async (scene) => {
      const hand = await handOf(scene);
      const { execution, left, right } = await fork(hand);
      await hand.done(left, partIn(hand, execution, "a", optionalB));
      await hand.done(right);
      await submit(hand.store, hand.settleOf(right, { kind: "done", keep: false, note: null }));
      assert.equal((await hand.claim()).claimed.length, 1);
      assert.deepEqual(await countersOf(hand.store, execution), [1, 0, 0, false]);
    }),

    packetCase("two branches that end at the same time release the join once", async (scene) => {
      const [one, two] = [await handOf(scene), await handOf(scene)];
      const execution = await one.trigger({ queue: "root", reach: [...both, "join.c"] });
      const branch = (hand: Hand, queue: string, port: string) => hand.packet({ execution, queue, reach: [`join.${port}`] });
      const ports = { ports: ["a", "b", "c"], optional: ["b", "c"] };
      const waiting = partIn(one, execution, "a", ports);
      await one.done(await one.take("root"), waiting, branch(one, "b", "b"), branch(one, "c", "c"));
      const [left, right] = [await one.take("b"), await two.take("c")];
      const woken = await Promise.all([one.done(left), two.done(right)]);
      assert.equal(woken.flatMap((each) => each.woken).filter(({ to }) => to === "due").length, 1);
      assert.deepEqual(await countersOf(one.store, execution), [1, 0, 0, false]);
      assert.equal((await one.take()).no, waiting.no);
    }),
  ],
};

/** As `fork`, with a second join, `last`, behind the first one's output and the left branch. */
async function forkBefore(hand: Hand) {
  const execution = await hand.trigger({ queue: "root", reach: [...both, "last.x", "last.y"] });
  const [left, right] = [
    hand.packet({ execution, queue: "left", reach: ["join.a", "last.x", "last.y"] }),
    hand.packet({ execution, queue: "right", reach: ["join.b", "last.y"] }),
  ];
  await hand.done(await hand.take("root"), left, right);
  return { execution, left: await hand.take("left"), right: await hand.take("right") };
}
