import assert from "node:assert/strict";
import { open, type Store } from "onceflow";
import { afterAll, beforeAll, describe, inject, test } from "vitest";
import type { NewPacket, PacketAnswer } from "../../src/core/packets/operation.js";
import type { PacketRecord } from "../../src/core/packets/packet.js";
import { dead, done, Hand, keyOf, partOf, submit } from "../../src/testing/contract/packets/packet-operations.js";
import { type FreshDatabase, freshDatabase } from "../servers/postgres/databases.js";

const server = inject("postgres");
const timeout = 120_000;

/** Connections of four processes on one database. */
describe.skipIf(!server.ok)("four handles on the packets of one PostgreSQL", { timeout }, () => {
  let database: FreshDatabase;
  let stores: Store[];

  beforeAll(async () => {
    database = await freshDatabase(server.ok ? server.url : "");
    stores = [];
    for (let i = 0; i < 4; i++) stores.push(await open(database.url));
  });
  afterAll(async () => {
    await Promise.all(stores.map((store) => store.close()));
    await database.drop();
  });

  const handsOf = (leaseMs = timeout) => Promise.all(stores.map((store) => Hand.on(store, leaseMs)));

  /** When the packet was sent, when the send was answered, and when the packet was delivered, on one clock. */
  interface Sent {
    readonly no: number;
    readonly from: number;
    until: number;
  }

  /** Every handle claims packets until none are left. `deliver` settles them. */
  async function drain(
    hands: readonly Hand[],
    flow: string,
    queues: readonly string[],
    deliver: (hand: Hand, packet: PacketRecord) => Promise<unknown>,
  ) {
    const empty = async () =>
      (await (hands[0] as Hand).store.packets.counts()).every(
        (count) => count.flow !== flow || count.due + count.held + count.owned + count.parts === 0,
      );
    // Without this the test would wait without end for a packet that is never woken.
    const until = performance.now() + timeout / 2;
    await Promise.all(
      hands.map(async (hand) => {
        do {
          assert.ok(performance.now() < until, "some packets are left, and no worker can claim them");
          const { claimed } = await hand.claim({ queues: queues.map((queue) => ({ flow, queue, limit: 7 })), limit: 20 });
          await Promise.all(claimed.map((packet) => deliver(hand, packet)));
        } while (!(await empty()));
      }),
    );
  }

  test("shared lanes: each packet is delivered once, one of a lane at a time, in the order of commits", async () => {
    const hands = await handsOf();
    const flow = "lanes";
    let tick = 0;
    const sent = new Map<string, Sent[]>();
    const delivered = new Map<string, number[]>();
    const under = new Map<string, number>();
    const deliver = async (hand: Hand, packet: PacketRecord) => {
      const lane = packet.lane ?? "";
      under.set(lane, (under.get(lane) ?? 0) + 1);
      assert.equal(under.get(lane), 1, "another worker delivers another packet of this lane");
      delivered.set(lane, [...(delivered.get(lane) ?? []), packet.no]);
      await Promise.resolve();
      under.set(lane, 0);
      const answer = await submit(hand.store, hand.settleOf(packet, packet.no % 5 === 0 ? dead : done));
      assert.equal(answer.kind, "packetSettled");
    };
    const send = async (hand: Hand, i: number) => {
      const lane = `lane ${i % 3}`;
      const one: Sent = { no: hand.number(), from: ++tick, until: Number.MAX_SAFE_INTEGER };
      sent.set(lane, [...(sent.get(lane) ?? []), one]);
      const packet = hand.packet({ no: one.no, flow, lane: { name: lane, deadBlocks: false }, claim: i % 2 === 0 });
      const answer = await submit(hand.store, hand.sendOf([packet]));
      one.until = ++tick;
      assert.equal(answer.kind, "packetsSent");
      for (const placed of answer.kind === "packetsSent" ? answer.placed : [])
        if (placed.kind === "claimed") await deliver(hand, placed.packet);
    };
    await Promise.all(
      hands.map(async (hand) => {
        for (let i = 0; i < 24; i += 2) await Promise.all([send(hand, i), send(hand, i + 1)]);
      }),
    );
    await drain(hands, flow, ["edge"], deliver);
    for (const [lane, order] of delivered) {
      const times = new Map((sent.get(lane) ?? []).map((one) => [one.no, one]));
      assert.deepEqual([...order].sort(), [...times.keys()].sort());
      for (const [i, no] of order.entries()) {
        for (const later of order.slice(i + 1)) {
          const [a, b] = [times.get(no), times.get(later)];
          assert.ok(a && b && b.until > a.from, `${later} was committed before ${no} was sent, and delivered after it`);
        }
      }
    }
    assert.equal([...delivered.values()].flat().length, 96);
  });

  test("shared keys: each is completed once, all other packets are acknowledged, and a dead letter lets the next one try", async () => {
    const hands = await handsOf();
    const flow = "keys";
    const completed = new Map<string, number>();
    const delivered = new Set<number>();
    let acknowledged = 0;
    const deliver = async (hand: Hand, packet: PacketRecord) => {
      assert.ok(!delivered.has(packet.no), `${packet.no} was delivered twice`);
      delivered.add(packet.no);
      const fails = packet.no % 3 === 0;
      const answer = await submit(hand.store, hand.settleOf(packet, fails ? dead : done));
      assert.equal(answer.kind, "packetSettled");
      acknowledged += countOf(answer);
      const key = packet.key?.key ?? "";
      if (!fails) completed.set(key, (completed.get(key) ?? 0) + 1);
    };
    await Promise.all(
      hands.flatMap((hand) =>
        Array.from({ length: 20 }, async (_, i) => {
          const lane = i % 2 === 0 ? { name: `lane ${i % 4}`, deadBlocks: false } : null;
          const packet: NewPacket = hand.packet({ flow, key: keyOf(`k${i % 5}`), lane, letter: null, claim: i % 3 === 0 });
          const answer = await submit(hand.store, hand.sendOf([packet]));
          assert.equal(answer.kind, "packetsSent");
          for (const placed of answer.kind === "packetsSent" ? answer.placed : []) {
            if (placed.kind === "claimed") await deliver(hand, placed.packet);
            if (placed.kind === "duplicate") acknowledged += 1;
          }
        }),
      ),
    );
    const counting = hands.map((hand) =>
      counted(hand, (n) => {
        acknowledged += n;
      }),
    );
    await drain(counting, flow, ["edge"], deliver);
    assert.deepEqual([...completed.values()], [1, 1, 1, 1, 1]);
    assert.equal(delivered.size + acknowledged, 80);
  });

  test("shared joins: every pair of parts is joined once, every execution ends once, and none is lost", async () => {
    const hands = await handsOf();
    const flow = "joins";
    const first = hands[0] as Hand;
    const executions = await Promise.all(
      Array.from({ length: 30 }, async () => {
        const execution = first.execution({ flow });
        const packets = ["left", "right"].map((queue) => first.packet({ flow, queue, execution: execution.no }));
        await submit(first.store, first.sendOf(packets, execution));
        return execution.no;
      }),
    );
    const joined: string[] = [];
    const ended: number[] = [];
    const deliver = async (hand: Hand, packet: PacketRecord) => {
      const { execution, queue } = packet;
      const port = queue === "left" ? "a" : "b";
      const sends = queue === "joined" ? [] : [hand.packet({ flow, queue: "joined", execution, join: partOf(port) })];
      if (queue === "joined") joined.push(`${execution} ${Object.keys(packet.parts ?? {}).length}`);
      const answer = await submit(hand.store, hand.settleOf(packet, done, sends));
      assert.equal(answer.kind, "packetSettled");
      if (answer.kind === "packetSettled") ended.push(...answer.ended.map(({ no }) => no));
    };
    // Each side belongs to one process: both fill a port of every join, in one flush each, at the same time.
    const sides = await Promise.all(
      ["left", "right"].map(async (queue, i) => {
        const hand = hands[i] as Hand;
        return { hand, claimed: (await hand.claim({ queues: [{ flow, queue, limit: 100 }] })).claimed };
      }),
    );
    await Promise.all(sides.flatMap(({ hand, claimed }) => claimed.map((packet) => deliver(hand, packet))));
    await drain(hands, flow, ["joined"], deliver);
    assert.deepEqual(joined.sort(), executions.map((no) => `${no} 1`).sort());
    assert.deepEqual([...ended].sort(), [...executions].sort());
  });

  test("shared joins with optional ports: branches that end at the same moment in two processes decide each join once", async () => {
    const hands = await handsOf();
    const flow = "optional joins";
    const first = hands[0] as Hand;
    const optional = { optional: ["a", "b"] };
    const ends = ["sends", "sends nothing", "dies without a letter"] as const;
    const executions = await Promise.all(
      Array.from({ length: 90 }, async (_, i) => {
        const execution = first.execution({ flow });
        const branches = [
          { queue: "left", reach: ["join.a"], payload: JSON.stringify(ends[i % 3]) },
          { queue: "right", reach: ["join.b"], payload: JSON.stringify(ends[Math.floor(i / 3) % 3]) },
        ];
        const packets = branches.map((fields) => first.packet({ flow, execution: execution.no, letter: null, ...fields }));
        await submit(first.store, first.sendOf(packets, execution));
        const filled = [i % 3, Math.floor(i / 3) % 3].filter((end) => end === 0).length;
        return { no: execution.no, filled };
      }),
    );
    const joined: string[] = [];
    const ended: number[] = [];
    const settle = async (hand: Hand, packet: PacketRecord) => {
      const { execution, queue, payload } = packet;
      const end = JSON.parse(payload) as string;
      const port = queue === "left" ? "a" : "b";
      if (queue === "joined") joined.push(`${execution} ${Object.keys(packet.parts ?? {}).length + 1}`);
      const sends =
        end === "sends" && queue !== "joined"
          ? [hand.packet({ flow, queue: "joined", execution, reach: [`join.${port}`], join: partOf(port, optional) })]
          : [];
      const answer = await submit(hand.store, hand.settleOf(packet, end.startsWith("dies") ? dead : done, sends));
      assert.equal(answer.kind, "packetSettled");
      if (answer.kind === "packetSettled") ended.push(...answer.ended.map(({ no }) => no));
    };
    const sides = await Promise.all(
      ["left", "right"].map(async (queue, i) => {
        const hand = hands[i] as Hand;
        return { hand, claimed: (await hand.claim({ queues: [{ flow, queue, limit: 100 }], limit: 100 })).claimed };
      }),
    );
    assert.deepEqual(
      sides.map(({ claimed }) => claimed.length),
      [90, 90],
    );
    // In the same order and in many small flushes, so that the transactions of the two processes meet at every execution.
    const byExecution = sides.map(({ claimed }) => claimed.toSorted((a, b) => (a.execution ?? 0) - (b.execution ?? 0)));
    for (let i = 0; i < 90; i += 3) {
      await Promise.all(sides.flatMap(({ hand }, side) => (byExecution[side] ?? []).slice(i, i + 3).map((packet) => settle(hand, packet))));
    }
    await drain(hands, flow, ["joined"], settle);
    const delivered = executions.filter(({ filled }) => filled > 0).map(({ no, filled }) => `${no} ${filled}`);
    assert.deepEqual(joined.sort(), delivered.sort());
    assert.deepEqual([...ended].sort(), executions.map(({ no }) => no).sort());
  });

  test("an optional port whose packet is a duplicate: the claim that finds it and the settle of the other branch decide each join once", async () => {
    const hands = await handsOf();
    const flow = "duplicates before joins";
    const [first, second] = hands as [Hand, Hand];
    const taken = keyOf("taken", { scope: flow });
    await first.done(await first.sendAndClaim({ flow, key: taken }));
    const executions = await Promise.all(
      Array.from({ length: 60 }, async () => {
        const execution = first.execution({ flow });
        const left = first.packet({ flow, queue: "left", execution: execution.no, reach: ["join.a"] });
        const right = first.packet({ flow, queue: "right", execution: execution.no, reach: ["join.b"], key: taken });
        await submit(first.store, first.sendOf([left, right], execution));
        return execution.no;
      }),
    );
    const { claimed: lefts } = await first.claim({ queues: [{ flow, queue: "left", limit: 100 }] });
    const joined: number[] = [];
    const settle = async (hand: Hand, packet: PacketRecord) => {
      const { execution, queue } = packet;
      if (queue === "joined") joined.push(execution ?? 0);
      const part = () => hand.packet({ flow, queue: "joined", execution, reach: ["join.a"], join: partOf("a", { optional: ["b"] }) });
      const answer = await submit(hand.store, hand.settleOf(packet, done, queue === "left" ? [part()] : []));
      assert.equal(answer.kind, "packetSettled");
    };
    const settles = async () => {
      for (let i = 0; i < lefts.length; i += 2) await Promise.all(lefts.slice(i, i + 2).map((packet) => settle(first, packet)));
    };
    const claims = async () => {
      for (let acknowledged = 0; acknowledged < 60; ) {
        const { closed } = await second.claim({ queues: [{ flow, queue: "right", limit: 2 }] });
        acknowledged += closed.filter(({ to }) => to === "duplicate").length;
      }
    };
    await Promise.all([settles(), claims()]);
    await drain(hands, flow, ["joined"], settle);
    assert.deepEqual(joined.sort(), executions.sort());
  });
});

/** Counts the packets that claims acknowledge: they are not delivered. */
function counted(hand: Hand, add: (n: number) => void): Hand {
  const claim: Hand["claim"] = async (query) => {
    const claims = await hand.claim(query);
    add(claims.closed.filter(({ to }) => to === "duplicate" || to === "mismatch").length);
    return claims;
  };
  return Object.assign(Object.create(hand) as Hand, { claim });
}

function countOf(answer: PacketAnswer): number {
  return answer.kind === "packetSettled" ? answer.woken.filter(({ to }) => to === "duplicate" || to === "mismatch").length : 0;
}
