import assert from "node:assert/strict";
import type { SendPackets } from "../../../core/packets/operation.js";
import { numbersPerWorker } from "../../../core/packets/packet.js";
import type { Tx } from "../../../core/store/store.js";
import { type ContractGroup, needsConnections, needsTransactions } from "../contract-case.js";
import { dayMs } from "../ledger/operations.js";
import { shortMs } from "../ledger/scene.js";
import { handOf, packetCase, picture, sendSafely } from "./packet-case.js";
import { countersOf, dead, done, expectAnswer, Hand, keyOf, kindsOf, numbersOf, partOf, retry, submit } from "./packet-operations.js";

const sixteen = Array.from({ length: 16 }, (_, i) => i);

export const racingPackets: ContractGroup = {
  verb: "race",
  cases: [
    packetCase("many workers claim at once: each packet goes to one of them", async (scene) => {
      const stores = [await scene.store(), await scene.open()];
      const hands = await Promise.all(stores.flatMap((store) => [Hand.on(store), Hand.on(store)]));
      const first = hands[0] ?? assert.fail();
      await first.send(...Array.from({ length: 100 }, () => first.packet()));
      const claims = await Promise.all(hands.flatMap((hand) => [hand.claim({ limit: 30 }), hand.claim({ limit: 30 })]));
      const got = claims.flatMap(({ claimed }) => numbersOf(claimed));
      assert.equal(got.length, 100);
      assert.equal(new Set(got).size, 100);
    }),

    packetCase("many triggers with one key: one of them begins an execution", async (scene) => {
      const hands = [await handOf(scene), await Hand.on(await scene.open())];
      const key = { scope: "", key: "k", fingerprint: null, retentionMs: dayMs };
      const answers = await Promise.all(
        sixteen.map((i) => {
          const hand = hands[i % 2] ?? assert.fail();
          const execution = hand.execution({ key });
          return submit(hand.store, hand.sendOf([hand.packet({ execution: execution.no })], execution));
        }),
      );
      assert.equal(answers.filter(({ kind }) => kind === "packetsSent").length, 1);
      const named = new Set(answers.flatMap((answer) => (answer.kind === "triggered" ? [answer.execution] : [])));
      assert.deepEqual([...named], numbersOf(await (hands[0] as Hand).store.packets.executions({ limit: 10 })));
    }),

    packetCase("both ports filled at once on two handles: joined once, and no part is left", async (scene) => {
      const [hand, other] = [await handOf(scene), await Hand.on(await scene.open())];
      const executions = await Promise.all(sixteen.map(() => hand.trigger({ queue: "root" })));
      const placed = await Promise.all(
        executions.flatMap((execution) => [
          hand.send(hand.packet({ execution, join: partOf("a") })),
          other.send(other.packet({ execution, join: partOf("b") })),
        ]),
      );
      const kinds = placed.flatMap(kindsOf).sort();
      assert.deepEqual(kinds, [...sixteen.map(() => "due"), ...sixteen.map(() => "part")]);
      for (const { parts } of (await hand.claim()).claimed) assert.equal(Object.keys(parts ?? {}).length, 1);
    }),

    packetCase("branches that end at once on two handles: the execution ends once", async (scene) => {
      const [hand, other] = [await handOf(scene), await Hand.on(await scene.open())];
      const executions = await Promise.all(sixteen.map(() => hand.trigger({ queue: "left" }, { queue: "right" })));
      const [left, right] = [(await hand.claimFrom("left")).claimed, (await other.claimFrom("right")).claimed];
      const ended = await Promise.all([...left.map((packet) => hand.done(packet)), ...right.map((packet) => other.done(packet))]);
      assert.deepEqual(numbersOf(ended.flatMap((each) => each.ended)).sort(), [...executions].sort());
    }),

    packetCase("a retry that crosses with a re-injection, a discard, a purge: the counters add up", async (scene) => {
      const [hand, other] = [await handOf(scene), await Hand.on(await scene.open())];
      const execution = await hand.trigger(...sixteen.map(() => ({ claim: true })));
      const packets = await hand.store.packets.packetsOf(execution, 100);
      await Promise.all(packets.map((packet, i) => hand.settle(packet, i % 2 === 0 ? dead : retry())));
      await Promise.all(
        packets.flatMap(({ no }) => [hand.store.packets.reinject(no), other.store.packets.discard(no), other.store.packets.purge(10)]),
      );
      const left = await hand.store.packets.packetsOf(execution, 100);
      const dying = left.filter(({ state }) => state === "dead").length;
      assert.equal(dying, 0);
      assert.deepEqual(await countersOf(hand.store, execution), [left.length, 0, 0, false]);
    }),

    packetCase(
      "two handles, workers that fall silent and fail: every execution ends, each node was delivered, counters add up",
      async (scene) => {
        const stores = [await scene.store(), await scene.open()];
        const sender = await Hand.on(stores[0] ?? assert.fail());
        const executions = await Promise.all(sixteen.map((i) => sender.trigger({ queue: "n1", key: keyOf(`${i} n1`) })));
        let turn = 0;
        let leaseMs = shortMs;
        const delivered = new Map<string, number>();
        const work = async (store: (typeof stores)[0]) => {
          const hand = await Hand.on(store, leaseMs);
          for (const packet of (await hand.claimFrom("n1", "n2", "n3")).claimed) {
            turn += 1;
            if (turn % 7 === 0) continue;
            const fails = turn % 5 === 0;
            const level = Number(packet.queue.slice(1));
            const key = keyOf(`${packet.key?.key.split(" ")[0]} n${level + 1}`);
            const sent = level < 3 && !fails ? [hand.packet({ execution: packet.execution, queue: `n${level + 1}`, key })] : [];
            const answer = await submit(hand.store, hand.settleOf(packet, fails ? retry() : done, sent));
            if (answer.kind === "packetStale") leaseMs += 10;
            else if (!fails) delivered.set(packet.key?.key ?? "", (delivered.get(packet.key?.key ?? "") ?? 0) + 1);
          }
          if (turn % 2 === 0) await hand.store.packets.leave(hand.no);
        };
        await scene.until("every execution has ended", async () => {
          await Promise.all([...stores, ...stores].map(work));
          return (await sender.store.packets.executions({ status: "completed", limit: 100 })).length === executions.length;
        });
        assert.deepEqual(
          [...delivered.values()],
          Array.from({ length: 48 }, () => 1),
        );
        for (const no of executions) assert.deepEqual(await countersOf(sender.store, no), [0, 0, 0, true]);
        assert.ok((await sender.store.packets.counts()).every(({ due, held, owned, dead: died }) => due + held + owned + died === 0));
      },
    ),

    packetCase(
      "connections lost at any moment: each packet and each output is stored once",
      async (scene) => {
        const hands = [await handOf(scene), await Hand.on(await scene.open())];
        const first = hands[0] as Hand;
        let working = true;
        const play = async (i: number) => {
          const hand = hands[i % 2] ?? first;
          const execution = hand.execution();
          let no = hand.number();
          const send = hand.sendOf([hand.packet({ no, execution: execution.no, claim: true })], execution);
          let answer = await sendSafely(scene, hand.store, send);
          for (let step = 0; step < 4; step++) {
            const [placed] = answer.kind === "packetsSent" || answer.kind === "packetSettled" ? answer.placed : [];
            const packet = placed?.kind === "claimed" ? placed.packet : assert.fail(`placed ${JSON.stringify(answer)}`);
            no = hand.number();
            const next = step < 3 ? [hand.packet({ no, execution: execution.no, claim: true })] : [];
            await scene.pass(5);
            answer = await sendSafely(scene, hand.store, hand.settleOf(packet, done, next, [`"${step}"`]));
          }
          return execution.no;
        };
        const cut = async () => {
          for (let i = 0; i < 8 && working; i++) {
            await scene.pass(20);
            await scene.sever();
          }
        };
        const [, executions] = await Promise.all([cut(), Promise.all(sixteen.map(play)).finally(() => (working = false))]);
        for (const no of executions) {
          assert.deepEqual((await first.store.packets.execution(no))?.outputs, ['"0"', '"1"', '"2"', '"3"']);
          assert.deepEqual(await countersOf(first.store, no), [0, 0, 0, true]);
        }
      },
      needsConnections,
    ),

    packetCase("another handle is notified of a sent packet within a second", async (scene) => {
      const [hand, other] = [await handOf(scene), await scene.open()];
      let notifications = 0;
      const stop = other.packets.watch(() => {
        notifications += 1;
      });
      let times = 0;
      for (let i = 0; i < 5 && times < 2; i++) {
        await scene.pass(60);
        notifications = 0;
        await hand.send(hand.packet());
        const startedAt = performance.now();
        for (let ms = 0; notifications === 0 && ms < 1000 && performance.now() - startedAt < 1000; ms += 5) await scene.pass(5);
        if (notifications > 0) times += 1;
      }
      stop();
      stop();
      assert.ok(times >= 2, `only ${times} of 5 sends were notified`);
      await scene.pass(60);
      notifications = 0;
      await hand.send(hand.packet());
      await scene.pass(100);
      assert.equal(notifications, 0);
    }),

    packetCase(
      "sent in a transaction of the store or of the user: stored together with its rows, or not at all",
      async (scene) => {
        const hand = await handOf(scene);
        const { store } = hand;
        const sendWithin = async (tx: Tx, send: SendPackets) => {
          assert.ok(store.packets.sendWithin, "a store with transactions sends packets in them");
          expectAnswer(await store.packets.sendWithin(tx, send), "packetsSent");
        };
        const execution = hand.execution();
        const kept = hand.sendOf([hand.packet({ execution: execution.no, key: keyOf("k") })], execution);
        const sends = [kept, hand.sendOf([hand.packet()])];
        for (const [i, run] of [store.transact, scene.business.runner].entries()) {
          const send = sends[i] ?? assert.fail();
          await run(async (tx) => {
            await scene.business.add(tx, `kept ${i}`);
            await sendWithin(tx, send);
          });
          const before = JSON.stringify(await picture(store));
          const failing = run(async (tx) => {
            await scene.business.add(tx, "lost");
            await sendWithin(tx, hand.sendOf([hand.packet({ queue: `new ${i}` })]));
            throw new Error("no");
          });
          await assert.rejects(failing, /no/);
          assert.equal(JSON.stringify(await picture(store)), before);
        }
        assert.deepEqual(await scene.business.rows(), ["kept 0", "kept 1"]);
        assert.deepEqual(
          numbersOf((await hand.claim()).claimed),
          sends.flatMap(({ packets }) => numbersOf(packets)),
        );
      },
      needsTransactions,
    ),

    packetCase("the highest packet number of a worker is read back unchanged", async (scene) => {
      const hand = await handOf(scene);
      const no = (2 ** 22 - 1) * numbersPerWorker + numbersPerWorker - 1;
      await hand.send(hand.packet({ no }));
      assert.equal((await hand.take()).no, no);
    }),
  ],
};
