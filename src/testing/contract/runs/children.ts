import assert from "node:assert/strict";
import type { Mail } from "../../../core/runs/run.js";
import type { ContractGroup } from "../contract-case.js";
import { eventsOf, lapse, meanwhile, picture, runCase, timeOf, unchanged } from "./run-case.js";
import {
  after,
  append,
  appendOf,
  begin,
  claim,
  claimedIds,
  ended,
  expectAnswer,
  firstOf,
  numbers,
  type Owned,
  ownedOf,
  play,
  released,
  runOf,
  startOf,
  submit,
} from "./run-operations.js";

const childOf = (parent: string, id = "child") => startOf({ id, parent, workflow: "child's" });

/** The mail of a parent about a child: kind, child, and how the child ended. */
const contentOf = ({ kind, about, payload }: Mail) => [kind, about, JSON.parse(payload ?? "null") as unknown];

export const childbearing: ContractGroup = {
  verb: "child",
  cases: [
    runCase("children are created with the entry, pending and due at once", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const children = [
        { ...childOf("run", "a"), input: "input of a", fingerprint: "print", retentionMs: 1234 },
        { ...childOf("run", "b"), input: "input of b", retentionMs: null },
      ];
      await append(store, await begin(store), { children });
      for (const { verb: _, first: __, ...fields } of children) {
        const run = await runOf(other, fields.id);
        assert.deepEqual(run, { ...run, ...fields });
        assert.deepEqual([run.status, run.owner, run.epoch, run.startedAt], ["pending", null, 0, null]);
        assert.ok(run.wakeAt !== null && run.wakeAt <= (await timeOf(store)));
      }
      assert.deepEqual(await claimedIds(other, { workflows: ["child's"] }), ["a", "b"]);
    }),

    runCase("children of a first entry are created with their parent, or not at all", async (scene) => {
      const store = await scene.store();
      await begin(store, { first: firstOf({ children: [childOf("run", "a")] }) });
      assert.equal((await runOf(store, "a")).parent, "run");
      expectAnswer(await submit(store, startOf({ first: firstOf({ children: [childOf("run", "b")] }) })), "exists");
      assert.equal(await store.runs.read("b"), undefined);
    }),

    runCase("a child id that exists is not overwritten, and the entry that wanted to create it is written", async (scene) => {
      const store = await scene.store();
      await play(store, { id: "over" });
      await begin(store, { id: "running" });
      const owned = await begin(store);
      const children = [childOf("run", "over"), childOf("run", "new"), childOf("run", "running"), childOf("run", "run")];
      await unchanged(store, ["over", "running"], () => append(store, owned, { events: "entry", children }));
      assert.equal((await runOf(store, "new")).parent, "run");
      assert.deepEqual([(await runOf(store)).parent, (await eventsOf(store, "run"))[1]], [null, "entry"]);
    }),

    runCase("a child is created once when several want it in one turn, on two handles", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const parents = await Promise.all(numbers(12).map((i) => begin(store, { id: `run ${i}` })));
      const asked = parents.map((parent, i) => submit(i % 2 === 0 ? store : other, appendOf(parent, { children: [childOf(parent.id)] })));
      const started = submit(store, startOf({ id: "child" }));
      for (const answer of await Promise.all(asked)) expectAnswer(answer, "appended");
      const { kind } = await started;
      const { parent } = await runOf(store, "child");
      assert.ok(kind === "created" ? parent === null : parents.some(({ id }) => id === parent));
      for (const { id } of parents) assert.equal((await eventsOf(store, id)).length, 2);
    }),

    runCase("the end of a child is mail for its parent: how it ended, and with what", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const ways = [
        ["completed", '{"a":["\u00fc\ud83d\ude00","\\u0000\\""]}'],
        ["failed", '"why"'],
        ["cancelled", null],
      ] as const;
      await begin(store);
      for (const [status, output] of ways) await play(other, { id: status, parent: "run" }, ended(status, output));
      assert.deepEqual(
        (await store.runs.mail("run", 0)).map(contentOf),
        ways.map(([status, output]) => ["child", status, [status, output]]),
      );
    }),

    runCase("the end of a child wakes a parent that sleeps", async (scene) => {
      const store = await scene.store();
      await append(store, await begin(store), { children: [childOf("run")], next: released() });
      assert.deepEqual(await claimedIds(store), []);
      const [claimed] = (await claim(store, { workflows: ["child's"] })).claimed;
      assert.ok(claimed);
      const owned = await append(store, ownedOf(claimed));
      assert.deepEqual(await claimedIds(store), [], "a child that has not ended does not wake its parent");
      await append(store, owned, { next: ended() });
      const [parent] = (await claim(store)).claimed;
      assert.deepEqual(
        [parent?.run.id, parent?.lapsed, parent?.mail.map(contentOf)],
        ["run", false, [["child", "child", ["completed", '"output"']]]],
      );
    }),

    runCase("the same end, sent again, sends no second mail", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const parent = await begin(store);
      const last = appendOf(await begin(store, { id: "child", parent: "run" }), { next: ended() });
      for (const handle of [store, other, store]) expectAnswer(await submit(handle, last), "appended");
      assert.equal((await store.runs.mail("run", 0)).length, 1);
      await append(store, parent, { consumed: 1, next: released() });
      await unchanged(store, ["run"], () => submit(other, last));
    }),

    runCase("a child that had ended before is reported again only if its mail was read", async (scene) => {
      const store = await scene.store();
      const parent = await begin(store);
      // The child of an earlier run with the parent's id, which was deleted.
      await play(store, { id: "child", parent: "run" });
      const mail = async () => (await store.runs.mail("run", 0)).map(contentOf);
      const reported = ["child", "child", ["completed", '"output"']];
      const next = await append(store, parent, { children: [childOf("run")] });
      assert.deepEqual(await mail(), [reported]);
      await append(store, next, { children: [childOf("run")], consumed: 1 });
      assert.deepEqual(await mail(), [reported, reported]);
    }),

    runCase("a refused end sends no mail", async (scene) => {
      const store = await scene.store();
      await begin(store);
      const late = await begin(store, { id: "child", parent: "run", first: firstOf({}, 60) });
      await lapse(scene, store, "child");
      const [claimed] = (await claim(store)).claimed;
      assert.ok(claimed);
      await append(store, ownedOf(claimed));
      for (const asked of [
        appendOf(late, { next: ended() }),
        appendOf(late, { events: null, next: ended() }),
        appendOf(after(late, 9), { next: ended() }),
      ])
        expectAnswer(await unchanged(store, ["run", "child"], () => submit(store, asked)), "overtaken");
    }),

    runCase("a child may end after its parent has ended, or without a parent record", async (scene) => {
      const store = await scene.store();
      await play(store, { id: "over" });
      for (const parent of ["over", "nowhere"]) {
        await unchanged(store, [parent], () => play(store, { id: `child of ${parent}`, parent }, ended("completed", "kept")));
        const { status, output } = await runOf(store, `child of ${parent}`);
        assert.deepEqual([status, output], ["completed", "kept"]);
      }
    }),

    // A reader that sees the end also sees the mail: there is no moment between the two.
    runCase("the mail is in the same commit as the end", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const children = await Promise.all(
        numbers(10).map(async (i) => {
          await begin(store, { id: `parent ${i}` });
          return await begin(store, { id: `child ${i}`, parent: `parent ${i}` });
        }),
      );
      const waiting = new Set(numbers(10));
      const look = async () => {
        for (const i of waiting) {
          if ((await other.runs.read(`child ${i}`))?.endedAt === null) continue;
          assert.equal((await other.runs.mail(`parent ${i}`, 0)).length, 1);
          waiting.delete(i);
        }
      };
      await meanwhile(scene, look, async () => {
        for (const child of children) await append(store, child, { next: ended() });
      });
      await look();
      assert.equal(waiting.size, 0);
    }),

    runCase(
      "many children of one parent end at once, on two handles, while the parent writes: it gets one mail for each",
      async (scene) => {
        const [store, other] = [await scene.store(), await scene.open()];
        const parent = await begin(store);
        const children = await Promise.all(numbers(40).map((i) => begin(store, { id: `child ${i}`, parent: "run" })));
        const write = async () => {
          let owned: Owned = parent;
          for (let i = 0; i < 5; i++) owned = await append(store, owned);
        };
        await Promise.all([write(), ...children.map((child, i) => append(i % 2 === 0 ? store : other, child, { next: ended() }))]);
        const { run, mail, journal } = await picture(store, "run");
        assert.deepEqual(
          mail.map(({ seq }) => seq),
          numbers(40),
        );
        assert.deepEqual(mail.map(({ about }) => about).sort(), children.map(({ id }) => id).sort());
        assert.deepEqual([run?.mail, run?.owner, journal.length], [40, parent.owner, 6]);
      },
    ),

    runCase("a child and its parent that end in one turn both end", async (scene) => {
      const store = await scene.store();
      const pairs = await Promise.all(
        numbers(10).map(
          async (i) => [await begin(store, { id: `a ${i}`, parent: `b ${i}` }), await begin(store, { id: `b ${i}` })] as const,
        ),
      );
      await Promise.all(pairs.flatMap((pair) => pair.map((one) => append(store, one, { next: ended() }))));
      for (const one of pairs.flat()) assert.equal((await runOf(store, one.id)).status, "completed");
    }),
  ],
};
