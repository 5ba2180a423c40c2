import assert from "node:assert/strict";
import type { RunListQuery } from "../../../core/runs/operation.js";
import type { RunRecord } from "../../../core/runs/run.js";
import type { Store } from "../../../core/store/store.js";
import { type ContractGroup, needsDurability } from "../contract-case.js";
import { reach, runCase, timeOf } from "./run-case.js";
import {
  append,
  begin,
  claim,
  create,
  ended,
  expectAnswer,
  firstOf,
  hookOf,
  numbers,
  play,
  post,
  released,
  runOf,
  startOf,
  submit,
} from "./run-operations.js";

const foundMax = 1000;

/** Page after page, as a list on a screen asks for them. */
async function pages(
  store: Store,
  query: RunListQuery,
  between: (page: number) => Promise<unknown> = async () => {},
): Promise<RunRecord[]> {
  const found: RunRecord[] = [];
  for (let page = 1; ; page++) {
    const last = found.at(-1);
    const next = await store.runs.list(last ? { ...query, after: { at: last.createdAt, id: last.id } } : query);
    assert.ok(next.length <= query.limit);
    if (next.length === 0) return found;
    found.push(...next);
    assert.ok(found.length <= foundMax, "the pages do not come to an end");
    await between(page);
  }
}

const idsOf = (runs: readonly RunRecord[]) => runs.map(({ id }) => id);

/** Values that must come back from the store unchanged. */
const awkward =
  "\u00fc \ud83d\ude00 \u4f60\u597d \u05e9\u05dc\u05d5\u05dd e\u0301 \u2028 \ufffd \uffff \u0007 \u001b[0m \\u0000 \\ \" ' ` $1 %s \r\n\t";

export const reading: ContractGroup = {
  verb: "read",
  cases: [
    runCase("a run that does not exist has no record, journal or mail", async (scene) => {
      const store = await scene.store();
      await begin(store, { id: "another" });
      assert.equal(await store.runs.read("run"), undefined);
      assert.equal(await store.runs.load("run"), undefined);
      assert.equal(await store.runs.hook("run"), undefined);
      assert.deepEqual([await store.runs.journal("run", 0, 10), await store.runs.mail("run", 0)], [[], []]);
      assert.deepEqual(await store.runs.list({ workflow: "missing", limit: 10 }), []);
    }),

    runCase("the journal after a number, no more than `limit`, and no other run's", async (scene) => {
      const store = await scene.store();
      let [owned, neighbour] = [await begin(store, { first: firstOf({ events: "1" }) }), await begin(store, { id: "neighbour" })];
      for (const i of [2, 3, 4, 5, 6]) {
        owned = await append(store, owned, { events: `${i}` });
        neighbour = await append(store, neighbour, { events: "not its" });
      }
      const events = async (seq: number, limit: number) => (await store.runs.journal("run", seq, limit)).map((entry) => entry.events);
      assert.deepEqual(await events(0, 100), ["1", "2", "3", "4", "5", "6"]);
      assert.deepEqual(await events(0, 2), ["1", "2"]);
      assert.deepEqual(await events(2, 2), ["3", "4"]);
      assert.deepEqual(await events(5, 2), ["6"]);
      assert.deepEqual(await events(6, 2), []);
    }),

    runCase("every text field of a run is returned unchanged", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const text = (what: string) => `${what} ${awkward}`;
      const fields = {
        input: text("input"),
        fingerprint: text("print"),
        parent: text("parent"),
        creator: text("creator"),
        workflow: text("work"),
      };
      let owned = await begin(store, { ...fields, first: { ...firstOf({ events: text("events") }), owner: text("owner") } });
      assert.equal((await runOf(other)).owner, text("owner"));
      await post(store, { about: text("about"), payload: text("payload") });
      owned = await append(store, owned, { hooks: [hookOf("token", text("hook"), text("metadata"))], events: "" });
      owned = await append(store, owned, { next: released({ status: "unknown", trouble: text("trouble") }) });
      const { about, metadata } = (await other.runs.hook("token")) ?? assert.fail("there is a hook");
      const { trouble } = await runOf(other);
      assert.deepEqual([about, metadata, trouble], [text("hook"), text("metadata"), text("trouble")]);
      const [claimed] = (await claim(other, { workflows: [text("work")] })).claimed;
      assert.deepEqual([claimed?.mail[0]?.about, claimed?.mail[0]?.payload], [text("about"), text("payload")]);
      assert.deepEqual(
        claimed?.journal.slice(0, 2).map(({ events }) => events),
        [text("events"), ""],
      );
      await append(store, { ...owned, epoch: 2 }, { next: ended("failed", text("output")) });
      const { id: _, output, ...run } = await runOf(other);
      assert.deepEqual(run, { ...run, ...fields });
      assert.equal(output, text("output"));
    }),

    runCase("every text field that may be large is returned unchanged", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const large = awkward.repeat(4000);
      const owned = await begin(store, { first: firstOf({ events: large, hooks: [hookOf("token", "hook", large)] }) });
      await post(store, { payload: large });
      assert.ok((await other.runs.hook("token"))?.metadata === large);
      await append(store, owned, { next: ended("completed", large) });
      assert.ok((await other.runs.journal("run", 0, 1))[0]?.events === large);
      assert.ok((await other.runs.mail("run", 0))[0]?.payload === large);
      assert.ok((await runOf(other)).output === large);
    }),

    runCase("listed by workflow and by status, newest first", async (scene) => {
      const store = await scene.store();
      for (const workflow of ["a", "A", "a "]) {
        const runNamed = (id: string) => ({ id: `${workflow}: ${id}`, workflow });
        await create(store, runNamed("pending"));
        await begin(store, runNamed("running"));
        for (const status of ["unknown", "diverged", "parked"] as const)
          await play(store, runNamed(status), released({ status, trouble: "t" }));
        for (const status of ["completed", "failed", "cancelled"] as const) await play(store, runNamed(status), ended(status));
      }
      const statuses = ["pending", "running", "unknown", "diverged", "parked", "completed", "failed", "cancelled"] as const;
      const list = async (query: Partial<RunListQuery>) => idsOf(await store.runs.list({ limit: 100, ...query })).sort();
      assert.equal((await list({})).length, 24);
      assert.deepEqual(await list({ workflow: "a" }), statuses.map((status) => `a: ${status}`).sort());
      for (const status of statuses) {
        assert.deepEqual(await list({ status }), ["a", "A", "a "].map((workflow) => `${workflow}: ${status}`).sort());
        assert.deepEqual(await list({ workflow: "A", status }), [`A: ${status}`]);
      }
      const times = (await store.runs.list({ limit: 100 })).map(({ createdAt }) => createdAt);
      assert.deepEqual(
        times,
        times.toSorted((a, b) => b - a),
      );
      for (const run of await store.runs.list({ workflow: "a", limit: 100 })) assert.deepEqual({ ...run }, await runOf(store, run.id));
    }),

    // Created in one flush: many runs have the same time, and only the id orders them.
    runCase("listed in pages: complete, newest first, without gaps or duplicates while new runs start", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      for (const batch of [1, 2]) {
        await Promise.all(numbers(60).map((i) => create(store, { id: `batch ${batch} run ${i}`, workflow: i % 2 === 0 ? "even" : "odd" })));
        await reach(scene, store, (await timeOf(store)) + 2);
      }
      const whole = idsOf(await store.runs.list({ limit: 1000 }));
      assert.equal(new Set(whole).size, 120);
      assert.ok(whole.slice(0, 60).every((id) => id.startsWith("batch 2")));
      for (const limit of [120, 50, 7]) assert.deepEqual(idsOf(await pages(store, { limit })), whole, `pages of ${limit}`);
      const even = whole.filter((id) => Number(id.split(" ").at(-1)) % 2 === 0);
      assert.deepEqual(idsOf(await pages(other, { workflow: "even", status: "pending", limit: 7 })), even);
      const paged = await pages(store, { limit: 11 }, (page) => create(other, { id: `new ${page}` }));
      assert.deepEqual(idsOf(paged), whole);
    }),

    runCase("returned objects have their own members, and no members of the driver", async (scene) => {
      const store = await scene.store();
      const owned = await begin(store, { first: firstOf({ hooks: [hookOf("token")] }) });
      await post(store);
      await append(store, owned, { next: released() });
      const { claimed } = await claim(store);
      const run = await runOf(store);
      const expected = [
        ...["alone", "avoid", "avoidUntil", "consumed", "crashes", "createdAt", "creator", "deadlineAt", "deaths"],
        ...["endedAt", "epoch", "fingerprint", "id", "input", "mail", "output", "owner", "parent", "retentionMs", "startedAt", "status"],
        ...["stopAt", "trouble", "unsettled", "wakeAt", "workflow", "scope", "attributes", "errorName", "errorCode"],
      ].sort();
      assert.deepEqual(Object.keys(run).sort(), expected);
      const { run: loaded, ...rest } = (await store.runs.load("run")) ?? assert.fail("it can be loaded");
      const exists = expectAnswer(await submit(store, startOf()), "exists").run;
      for (const one of [claimed[0]?.run, loaded, exists, (await store.runs.list({ limit: 1 }))[0]]) assert.deepEqual({ ...one }, run);
      const keys = (rows: readonly object[] | undefined) => Object.keys(rows?.[0] ?? {}).sort();
      for (const journal of [await store.runs.journal("run", 0, 1), rest.journal, claimed[0]?.journal])
        assert.deepEqual(keys(journal), ["at", "epoch", "events", "seq"]);
      for (const mail of [await store.runs.mail("run", 0), rest.mail, claimed[0]?.mail])
        assert.deepEqual(keys(mail), ["about", "at", "kind", "payload", "seq"]);
      const hook = await store.runs.hook("token");
      for (const hooks of [hook && [hook], rest.hooks, claimed[0]?.hooks])
        assert.deepEqual(keys(hooks), ["about", "createdAt", "metadata", "run", "token"]);
      assert.deepEqual(keys(await store.runs.renew({ owner: run.owner ?? "", leaseMs: 1000 })), ["creator", "epoch", "id", "mail"]);
    }),

    runCase("returned objects are copies or frozen", async (scene) => {
      const store = await scene.store();
      await begin(store, { first: firstOf({ events: "kept", hooks: [hookOf("token")] }) });
      await post(store, { payload: "kept" });
      const handedOut = async () => {
        const loaded = (await store.runs.load("run")) ?? assert.fail("it can be loaded");
        const exists = expectAnswer(await submit(store, startOf()), "exists").run;
        return [exists, await store.runs.read("run"), loaded.run, loaded.journal[0], loaded.mail[0], loaded.hooks[0]] as object[];
      };
      const seen = async () => (await handedOut()).map((given) => ({ ...given }));
      const before = await seen();
      const { journal } = (await store.runs.load("run")) ?? assert.fail("it can be loaded");
      for (const given of [...(await handedOut()), journal]) {
        try {
          Object.assign(given, { epoch: 99, events: "forged", payload: "forged", run: "forged", length: 0 });
        } catch {
          // A frozen value is as safe as a copy.
        }
      }
      assert.deepEqual(await seen(), before);
      assert.equal((await store.runs.journal("run", 0, 10)).length, 1);
    }),

    runCase(
      "data written by one handle is there after it is closed and another one is opened",
      async (scene) => {
        const first = await scene.open();
        await append(first, await begin(first, { first: firstOf({ events: "durable", hooks: [hookOf("token")] }) }), {
          children: [startOf({ id: "child", parent: "run" })],
          next: released(),
        });
        await post(first, { payload: "durable" });
        await first.close();
        const store = await scene.open();
        const { claimed } = await claim(store);
        const run = claimed.find((one) => one.run.id === "run");
        assert.deepEqual([run?.journal[0]?.events, run?.mail[0]?.payload, run?.hooks[0]?.token], ["durable", "durable", "token"]);
        assert.equal(claimed.length, 2);
      },
      needsDurability,
    ),
  ],
};
