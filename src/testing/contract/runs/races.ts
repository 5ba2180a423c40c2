import assert from "node:assert/strict";
import type { RunOperation } from "../../../core/runs/operation.js";
import { type ContractGroup, needsConnections } from "../contract-case.js";
import { newOwner } from "../ledger/operations.js";
import { type Scene, shortMs } from "../ledger/scene.js";
import { eventsOf, lapse, meanwhile, picture, runCase, sendSafely, timeOf } from "./run-case.js";
import {
  after,
  append,
  appendOf,
  begin,
  claim,
  count,
  create,
  ended,
  expectAnswer,
  firstOf,
  hookOf,
  numbers,
  type Owned,
  ownedOf,
  post,
  released,
  runOf,
  sendOf,
  startOf,
  submit,
  take,
} from "./run-operations.js";

const rounds = numbers(16);
const idOf = (round: number) => `run ${round}`;

/** Runs both at once. The order of the calls alternates with the round. */
async function together<A, B>(round: number, one: () => Promise<A>, two: () => Promise<B>): Promise<[A, B]> {
  if (round % 2 === 0) return await Promise.all([one(), two()]);
  const [b, a] = await Promise.all([two(), one()]);
  return [a, b];
}

/** Runs with an expired lease. */
async function lapsed(scene: Scene): Promise<Owned[]> {
  const store = await scene.store();
  const owned = await Promise.all(rounds.map((round) => begin(store, { id: idOf(round), first: firstOf({}, shortMs) })));
  for (const { id } of owned) await lapse(scene, store, id);
  return owned;
}

export const racing: ContractGroup = {
  verb: "race",
  cases: [
    // The owner polls for mail, finds none, and releases the run; mail that arrives in between must still wake the run.
    runCase("mail that arrives while its run is released always wakes the run", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const owned = await Promise.all(rounds.map((round) => begin(store, { id: idOf(round) })));
      await Promise.all(
        owned.map((one, round) =>
          together(
            round,
            () => append(store, one, { next: released() }),
            () => post(other, { to: { run: one.id } }),
          ),
        ),
      );
      const { claimed } = await claim(store);
      assert.deepEqual(claimed.map(({ run }) => run.id).sort(), rounds.map(idOf).sort());
      for (const { mail } of claimed) assert.equal(mail.length, 1);
    }),

    runCase("the end of a child that arrives while its parent is released always wakes the parent", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const pairs = await Promise.all(
        rounds.map(async (round) => {
          const parent = await begin(store, { id: idOf(round) });
          return { parent, child: await begin(other, { id: `child ${round}`, parent: parent.id }) };
        }),
      );
      await Promise.all(
        pairs.map(({ parent, child }, round) =>
          together(
            round,
            () => append(store, parent, { next: released() }),
            () => append(other, child, { next: ended() }),
          ),
        ),
      );
      const { claimed } = await claim(store);
      assert.deepEqual(claimed.map(({ run }) => run.id).sort(), rounds.map(idOf).sort());
    }),

    runCase("renewal and claim of a lapsed run: exactly one of them has it", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const owned = await lapsed(scene);
      const claims: string[] = [];
      const renewals: string[] = [];
      await Promise.all([
        ...owned.map(async ({ owner }, round) => {
          await scene.pass(round % 4);
          for (const { id } of await store.runs.renew({ owner, leaseMs: 60_000 })) renewals.push(id);
        }),
        ...[other, store, other].map(async (handle) => {
          for (let i = 0; i < 8; i++) for (const { run } of (await claim(handle, { limit: 2 })).claimed) claims.push(run.id);
        }),
      ]);
      for (const { run } of (await claim(other)).claimed) claims.push(run.id);
      assert.deepEqual([...claims, ...renewals].sort(), rounds.map(idOf).sort());
      for (const { id, owner } of owned) {
        const run = await runOf(store, id);
        assert.deepEqual([run.owner === owner, run.epoch], renewals.includes(id) ? [true, 1] : [false, 2]);
      }
    }),

    runCase("a late owner's entry and its successor's first entry at once: one of them is written, completely", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const owned = await lapsed(scene);
      const { claimed } = await claim(other);
      await Promise.all(
        owned.map(async (late, round) => {
          const next = ownedOf(claimed.find(({ run }) => run.id === late.id) ?? assert.fail("it can be claimed"));
          const entry = (who: string) => ({
            events: who,
            hooks: [hookOf(`${who} ${late.id}`)],
            children: [startOf({ id: `${who} child of ${late.id}` })],
          });
          const [lost, fenced] = await together(
            round,
            () => submit(store, appendOf(late, entry("late"))),
            () => submit(other, appendOf(next, entry("next"))),
          );
          assert.deepEqual([lost.kind, fenced.kind].sort(), ["appended", "overtaken"]);
          const [winner, loser] = lost.kind === "appended" ? ["late", "next"] : ["next", "late"];
          const { journal, hooks } = await picture(store, late.id);
          assert.deepEqual([journal.length, journal[1]?.events, journal[1]?.epoch], [2, winner, winner === "late" ? 1 : 2]);
          assert.deepEqual(
            hooks.map(({ token }) => token),
            [`${winner} ${late.id}`],
          );
          assert.equal((await runOf(store, `${winner} child of ${late.id}`)).status, "pending");
          assert.equal(await store.runs.read(`${loser} child of ${late.id}`), undefined);
        }),
      );
    }),

    runCase('mail and the end of its run at once: the mail arrives before the end, or is answered "ended"', async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      await Promise.all(
        rounds.map(async (round) => {
          const owned = await begin(store, { id: idOf(round), first: firstOf({ hooks: [hookOf(`token ${round}`)] }) });
          const [, answers] = await together(
            round,
            () => append(store, owned, { next: ended() }),
            () =>
              Promise.all([
                submit(other, sendOf({ to: { run: owned.id } })),
                submit(other, sendOf({ to: { token: `token ${round}` } })),
                submit(store, sendOf({ to: { token: `token ${round}` } })),
              ]),
          );
          const { sent = 0 } = count(answers.map(({ kind }) => kind));
          assert.ok(answers.every(({ kind }) => kind === "sent" || kind === "ended" || kind === "absent"));
          const { mail, run } = await picture(store, owned.id);
          assert.deepEqual([mail.length, run?.mail, run?.status, run?.wakeAt, run?.owner], [sent, sent, "completed", null, null]);
        }),
      );
    }),

    runCase("mail to a token that moves to another run: it reaches one of the two runs, or none", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      await Promise.all(
        rounds.map(async (round) => {
          const token = `token ${round}`;
          const first = await begin(store, { id: `first ${round}`, first: firstOf({ hooks: [hookOf(token)] }) });
          const second = await begin(store, { id: `second ${round}` });
          const [, answers] = await together(
            round,
            async () => {
              await append(store, first, { hooks: [{ drop: token }] });
              await append(store, second, { hooks: [hookOf(token)] });
            },
            () => Promise.all(numbers(4).map(() => submit(other, sendOf({ to: { token } })))),
          );
          for (const id of [first.id, second.id]) {
            const expected = answers.filter((answer) => answer.kind === "sent" && answer.run === id).length;
            const { mail, run } = await picture(other, id);
            assert.deepEqual([mail.length, run?.mail], [expected, expected]);
          }
        }),
      );
    }),

    // Each handle locks its own run first and then the other's, which it sends mail to.
    runCase("two runs that are each other's parents and end at once, on two handles, do not deadlock", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const pairs = await Promise.all(
        rounds.map((round) =>
          Promise.all([begin(store, { id: `a ${round}`, parent: `b ${round}` }), begin(store, { id: `b ${round}`, parent: `a ${round}` })]),
        ),
      );
      await Promise.all(
        pairs.map(([a, b], round) =>
          together(
            round,
            () => append(round % 3 === 0 ? other : store, a, { next: ended() }),
            () => append(round % 3 === 0 ? store : other, b, { next: ended() }),
          ),
        ),
      );
      for (const pair of pairs) {
        const [a, b] = await Promise.all(pair.map(({ id }) => picture(store, id)));
        assert.deepEqual([a?.run?.status, b?.run?.status], ["completed", "completed"]);
        assert.deepEqual([a?.run?.mail, b?.run?.mail], [a?.mail.length, b?.mail.length]);
        assert.ok((a?.mail.length ?? 0) + (b?.mail.length ?? 0) >= 1, "the run that ended first has sent mail to the other");
      }
    }),

    runCase("many parents and children on two handles that create, mail and end crosswise all come to their end", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const tree = async (root: number, handle: typeof store, away: typeof store) => {
        let owned = await begin(handle, { id: `root ${root}` });
        const children = numbers(4).map((i) =>
          startOf({ id: `root ${root} child ${i}`, parent: owned.id, workflow: `children of ${root}` }),
        );
        owned = await append(handle, owned, { children, hooks: [hookOf(`token ${root}`)] });
        const { claimed } = await claim(away, { workflows: [`children of ${root}`] });
        assert.equal(claimed.length, 4);
        await Promise.all([
          ...claimed.map((child) => append(away, ownedOf(child), { next: ended() })),
          submit(away, sendOf({ to: { token: `token ${root}` } })),
          post(handle, { to: { run: owned.id } }),
        ]);
        assert.equal((await runOf(handle, owned.id)).mail, 6);
        await append(handle, owned, { consumed: 6, next: ended() });
      };
      await Promise.all(numbers(10).map((root) => (root % 2 === 0 ? tree(root, store, other) : tree(root, other, store))));
      assert.equal((await store.runs.list({ status: "completed", limit: 1000 })).length, 50);
    }),

    runCase("workers that fall silent again and again: every run writes its steps once, in order, to the end", async (scene) => {
      const handles = [await scene.store(), await scene.open()];
      const [store] = handles as [(typeof handles)[0]];
      const steps = ["step 1", "step 2", "step 3", "step 4"];
      await Promise.all(rounds.map((round) => create(store, { id: idOf(round) })));
      let claims = 0;
      // The lease grows whenever an owner was too slow: otherwise, on a busy machine, workers would only take runs from each other.
      let leaseMs = shortMs;
      const longer = (ms: number) => Math.min(2 * ms, 2000);
      const work = async (handle: typeof store) => {
        const { claimed, now } = await claim(handle, { owner: newOwner(), leaseMs, limit: 3 });
        for (const one of claimed) {
          claims += 1;
          // Some workers die at once, and some after they have written the fence.
          if (claims % 5 === 0) continue;
          const fence = await submit(handle, appendOf(ownedOf(one), { events: "fence" }));
          if (fence.kind === "overtaken") leaseMs = longer(leaseMs);
          if (fence.kind === "overtaken" || claims % 7 === 0) continue;
          const done = one.journal.filter(({ events }) => events.startsWith("step")).length;
          const then = done + 1 === steps.length ? ended() : released({ wakeAt: now });
          const owned = ownedOf(one);
          const step = await submit(handle, appendOf(after(owned), { events: steps[done] ?? "one too many", next: then }));
          if (step.kind === "overtaken") leaseMs = longer(leaseMs);
        }
      };
      await scene.until("every run has ended", async () => {
        await Promise.all([...handles, ...handles].map(work));
        return (await store.runs.list({ status: "completed", limit: 1000 })).length === rounds.length;
      });
      for (const round of rounds) {
        const { journal, run } = await picture(store, idOf(round));
        assert.deepEqual(
          journal.map(({ events }) => events).filter((events) => events !== "fence"),
          steps,
        );
        assert.deepEqual(
          journal.map(({ seq }) => seq),
          numbers(journal.length),
        );
        const epochs = journal.map(({ epoch }) => epoch);
        assert.deepEqual(
          epochs,
          epochs.toSorted((a, b) => a - b),
        );
        // The last claim may have come just before the last entry of the previous owner.
        assert.ok((run?.epoch ?? 0) >= (epochs.at(-1) ?? 0));
      }
    }),

    runCase(
      "connections lost at any moment: each entry, child and mail is stored once",
      async (scene) => {
        const handles = [await scene.store(), await scene.open()] as const;
        const parent = startOf({ id: "parent", first: firstOf() });
        const send = (i: number, operation: RunOperation) => sendSafely(scene, handles[i % 2] ?? handles[0], operation);
        expectAnswer(await send(0, parent), "created");
        const work = async (i: number) => {
          const first = firstOf({ events: "entry 1", hooks: [hookOf(`token ${i}`)] });
          const started = startOf({ id: idOf(i), parent: "parent", first });
          let owned: Owned = { id: started.id, creator: started.creator, owner: first.owner, epoch: 1, seq: 1 };
          expectAnswer(await send(i, started), "created");
          for (const n of [2, 3, 4]) {
            const children = [startOf({ id: `child ${n} of ${owned.id}` })];
            expectAnswer(await send(i, sendOf({ to: n === 2 ? { token: `token ${i}` } : { run: owned.id }, payload: `${n}` })), "sent");
            expectAnswer(await send(i, appendOf(owned, { events: `entry ${n}`, children })), "appended");
            owned = after(owned);
            await scene.pass(10);
          }
          expectAnswer(await send(i, appendOf(owned, { events: "entry 5", next: ended() })), "appended");
        };
        let working = true;
        const cut = async () => {
          for (let i = 0; i < 12 && working; i++) {
            await scene.pass(20);
            await scene.sever();
          }
        };
        await Promise.all([cut(), Promise.all(rounds.map(work)).finally(() => (working = false))]);
        const [store] = handles;
        for (const round of rounds) {
          const { run, journal, mail, hooks } = await picture(store, idOf(round));
          assert.deepEqual(
            journal.map(({ events }) => events),
            numbers(5).map((n) => `entry ${n}`),
          );
          assert.deepEqual(
            mail.map(({ seq, payload }) => [seq, payload]),
            [1, 2, 3].map((seq) => [seq, `${seq + 1}`]),
          );
          assert.deepEqual([run?.status, run?.mail, run?.epoch, hooks.length], ["completed", 3, 1, 0]);
        }
        const received = await store.runs.mail("parent", 0);
        assert.deepEqual(received.map(({ about }) => about).sort(), rounds.map(idOf).sort());
        assert.equal((await store.runs.list({ status: "pending", limit: 1000 })).length, 3 * rounds.length);
      },
      needsConnections,
    ),

    runCase("no reader sees the epoch decrease or the journal get shorter", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      await create(store);
      let [epoch, length] = [0, 0];
      const look = async () => {
        const [run, events] = [await runOf(other), await eventsOf(other, "run")];
        assert.ok(run.epoch >= epoch && events.length >= length, "it went back");
        [epoch, length] = [run.epoch, events.length];
      };
      await meanwhile(scene, look, async () => {
        for (const i of numbers(12)) {
          const claimed = await take(i % 2 === 0 ? store : other, "run");
          assert.equal(claimed.run.epoch, i);
          const wakeAt = await timeOf(store);
          await append(store, ownedOf(claimed), { next: released({ wakeAt }) });
        }
      });
    }),
  ],
};
