import assert from "node:assert/strict";
import { InvalidInputError } from "../../../core/errors/errors.js";
import type { StartRun, Then } from "../../../core/runs/operation.js";
import type { RunRecord } from "../../../core/runs/run.js";
import { comparePositions, matches, orderOf, positionOf, type RunFilter } from "../../../core/runs/search/filter.js";
import { servedSearches } from "../../../core/runs/search/served.js";
import type { Store } from "../../../core/store/store.js";
import { encodeAttributes } from "../../../core/values/attributes.js";
import type { ContractGroup } from "../contract-case.js";
import type { Scene } from "../ledger/scene.js";
import { reach, runCase, timeOf } from "./run-case.js";
import {
  act,
  append,
  begin,
  claim,
  create,
  ended,
  firstOf,
  hookOf,
  numbers,
  ownedOf,
  play,
  released,
  reopening,
  runOf,
  startOf,
} from "./run-operations.js";

const attributesOf = (attributes: Parameters<typeof encodeAttributes>[0]) => encodeAttributes(attributes) as string;

const gold = attributesOf({ customer: 'c "1" \\ ü😀', tier: "gold", n: 1 });
const plain = attributesOf({ tier: "plain", n: 1, paid: true });

const failed = (name: string, code: string | null): Then => ({ ...ended("failed"), error: { name, code } });

/** Runs that differ in everything that a search can ask for, of two scopes and of none. */
async function fill(scene: Scene, store: Store): Promise<readonly RunRecord[]> {
  const kinds: readonly (readonly [string, Partial<StartRun>, Then | null])[] = [
    ["pending", {}, null],
    ["running", { attributes: gold }, null],
    ["unknown", {}, released({ status: "unknown", trouble: "why" })],
    ["diverged", { attributes: plain }, released({ status: "diverged", trouble: "why" })],
    ["parked", {}, released({ status: "parked", trouble: "why" })],
    ["paused with a trouble", {}, released({ status: "paused", trouble: "why" })],
    ["completed", { attributes: gold, workflow: "other" }, ended()],
    ["failed", { attributes: plain }, failed("TypeError", null)],
    ["failed with a code", { workflow: "other" }, failed("Übel", "E_1")],
    ["failed by an old version", {}, ended("failed")],
    ["cancelled", {}, ended("cancelled")],
    ["unsettled", {}, ended("cancelled", null, 1)],
    ["cut off", {}, { ...ended("cancelled", null), trouble: "cut off" }],
    ["a child", { parent: "parent" }, ended()],
  ];
  const ids: string[] = [];
  for (const scope of ["", "acme", "Acme "]) {
    for (const [what, fields, then] of kinds) {
      const id = `${scope}: ${what}`;
      ids.push(id);
      const labels = scope === "" ? {} : { scope };
      if (what === "pending") await create(store, { id, ...labels, ...fields });
      else if (then === null) await begin(store, { id, ...labels, ...fields });
      else await play(store, { id, ...labels, ...fields }, then);
    }
    await reach(scene, store, (await timeOf(store)) + 2);
  }
  return await Promise.all(ids.map((id) => runOf(store, id)));
}

/** All searches of the table of served combinations, with values that some of the runs have. */
function searchesOf(runs: readonly RunRecord[]): RunFilter[] {
  const [created, over] = [runs.map(({ createdAt }) => createdAt).sort(), runs.flatMap(({ endedAt }) => endedAt ?? []).sort()];
  const [from = 0, to = 0] = [created[Math.floor(created.length / 3)], created.at(-2)];
  const [endFrom = 0, endTo = 0] = [over[Math.floor(over.length / 3)], over.at(-2)];
  const values: Readonly<Record<string, readonly RunFilter[]>> = {
    idPrefix: [{ idPrefix: "acme: f" }, { idPrefix: ": " }, { idPrefix: "missing" }],
    workflow: [{ workflow: "other" }, { workflow: "missing" }],
    status: [{ status: "failed" }, { status: "completed" }],
    parentId: [{ parent: "parent" }],
    scope: [{ scope: "acme" }],
    created: [{ createdAfter: from, createdBefore: to }, { createdAfter: from }],
    ended: [{ endedAfter: endFrom }, { endedAfter: endFrom, endedBefore: endTo }, { endedBefore: endTo }],
    errorName: [{ errorName: "Übel" }, { errorName: "TypeError" }],
    errorCode: [{ errorCode: "E_1" }],
    attribute: [
      { attribute: { name: "tier", text: '"gold"' } },
      { attribute: { name: "n", text: "1" } },
      { attribute: { name: "paid", text: "true" } },
    ],
    needsPerson: [{ needsPerson: true }],
  };
  const searches: RunFilter[] = [];
  for (const { needs, allows } of servedSearches) {
    const subsets: string[][] = [[]];
    for (const name of allows) subsets.push(...subsets.map((names) => [...names, name]));
    for (const names of subsets) {
      const options = [...needs, ...names].map((name) => values[name] ?? []);
      searches.push(...options.reduce<RunFilter[]>((all, some) => all.flatMap((one) => some.map((more) => ({ ...one, ...more }))), [{}]));
    }
  }
  return searches;
}

async function listed(store: Store, filter: RunFilter, limit: number): Promise<RunRecord[]> {
  const order = orderOf(filter);
  const found: RunRecord[] = [];
  for (;;) {
    const last = found.at(-1);
    const page = await store.runs.list({ ...filter, limit, ...(last && { after: positionOf(last, order) }) });
    assert.ok(page.length <= limit);
    found.push(...page);
    if (page.length < limit) return found;
  }
}

const idsOf = (runs: readonly RunRecord[]) => runs.map(({ id }) => id);

async function found(store: Store, filter: RunFilter): Promise<string[]> {
  return idsOf(await listed(store, filter, 50)).sort();
}

export const searching: ContractGroup = {
  verb: "search",
  cases: [
    runCase("scope, attributes and the error are stored as they were written, and a run without them has none", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      for (const first of [
        null,
        firstOf(),
        firstOf({ hooks: [hookOf("token")], children: [startOf({ id: "child", parent: "labelled", scope: "ä" })] }),
      ])
        await create(store, {
          id: first?.entry.hooks.length ? "labelled" : first ? "begun" : "pending",
          first,
          scope: "ä b",
          attributes: gold,
        });
      for (const id of ["pending", "begun", "labelled"]) {
        const { scope, attributes, errorName, errorCode } = await runOf(other, id);
        assert.deepEqual([scope, attributes, errorName, errorCode], ["ä b", gold, null, null], id);
      }
      assert.equal((await runOf(other, "child")).scope, "ä");
      await play(store, { id: "bare" }, ended("failed"));
      await play(store, { id: "child of none", parent: "labelled" }, failed("E", "1"));
      const [bare, child] = [await runOf(other, "bare"), await runOf(other, "child of none")];
      assert.deepEqual([bare.scope, bare.attributes, bare.errorName, bare.errorCode], ["", null, null, null]);
      assert.deepEqual([child.scope, child.attributes, child.errorName, child.errorCode], ["", null, "E", "1"]);
    }),

    runCase("every served combination finds the runs that a scan finds, in its order, in pages of any size", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const runs = await fill(scene, store);
      const searches = searchesOf(runs);
      for (const [i, filter] of searches.entries()) {
        const order = orderOf(filter);
        const wanted = runs.filter((run) => matches(run, filter));
        wanted.sort((a, b) => comparePositions(positionOf(a, order), positionOf(b, order), order));
        const what = JSON.stringify(filter);
        assert.deepEqual(idsOf(await listed(i % 2 === 0 ? store : other, filter, 50)), idsOf(wanted), what);
        if (i % 5 === 0) assert.deepEqual(idsOf(await listed(other, filter, 2)), idsOf(wanted), `${what} in pages of 2`);
      }
    }),

    runCase("a count is that of a scan, up to the maximum", async (scene) => {
      const store = await scene.store();
      const runs = await fill(scene, store);
      for (const filter of searchesOf(runs).filter((_, i) => i % 3 === 0)) {
        const wanted: Record<string, number> = {};
        for (const { status } of runs.filter((run) => matches(run, filter))) wanted[status] = (wanted[status] ?? 0) + 1;
        assert.deepEqual({ ...(await store.runs.count(filter, 1000)) }, wanted, JSON.stringify(filter));
      }
      const few = await store.runs.count({}, 2);
      assert.deepEqual([few.failed, few.pending, few.completed], [2, 2, 2]);
      const cut = await store.runs.count({ attribute: { name: "n", text: "1" } }, 3);
      assert.equal(
        Object.values(cut).reduce((sum, each) => sum + each, 0),
        3,
      );
    }),

    runCase("a combination that no index serves is refused, and so is the scope that no run has", async (scene) => {
      const store = await scene.store();
      const unserved: readonly RunFilter[] = [
        { idPrefix: "a", workflow: "work" },
        { parent: "parent", status: "failed" },
        { attribute: { name: "n", text: "1" }, status: "failed" },
        { errorName: "E", errorCode: "1" },
        { endedAfter: 1, createdAfter: 1 },
        { needsPerson: true, workflow: "work" },
        { scope: "" },
      ];
      for (const filter of unserved) {
        await assert.rejects(store.runs.list({ ...filter, limit: 1 }), (error) => InvalidInputError.is(error), JSON.stringify(filter));
        await assert.rejects(store.runs.count(filter, 1), (error) => InvalidInputError.is(error), JSON.stringify(filter));
      }
    }),

    runCase("an entry changes the attributes, with any end of it, and a search finds the new ones only", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const search = (text: string) => found(other, { attribute: { name: "tier", text } });
      const inScope = (text: string) => found(other, { scope: "acme", attribute: { name: "tier", text } });
      let owned = await begin(store, { scope: "acme", attributes: gold });
      assert.deepEqual([await search('"gold"'), await inScope('"gold"')], [["run"], ["run"]]);
      owned = await append(store, owned, { attributes: plain });
      assert.deepEqual([await search('"gold"'), await search('"plain"'), await inScope('"plain"')], [[], ["run"], ["run"]]);
      owned = await append(store, owned, { attributes: null });
      assert.deepEqual([await search('"plain"'), (await runOf(other)).attributes], [[], null]);
      owned = await append(store, owned, { attributes: gold, next: released({ wakeAt: 0 }) });
      const [claimed] = (await claim(store)).claimed;
      assert.equal(claimed?.run.attributes, gold);
      await append(store, ownedOf(claimed ?? assert.fail("it is due")), { attributes: plain, next: ended() });
      assert.deepEqual([await search('"gold"'), await search('"plain"')], [[], ["run"]]);
      // A late owner changes nothing.
      assert.equal(
        (
          await store.commit({
            run: {
              verb: "append",
              ...owned,
              seq: 9,
              entry: { events: "[]", consumed: null, hooks: [], children: [], attributes: gold, ...{ then: ended() } },
            },
          })
        ).kind,
        "overtaken",
      );
      assert.deepEqual(await search('"gold"'), []);
    }),

    runCase("a run that is reopened has no error, and the attributes that the action gives", async (scene) => {
      const store = await scene.store();
      for (const [id, attributes] of [
        ["kept", undefined],
        ["changed", plain],
        ["none", null],
      ] as const) {
        const over = await play(store, { id, attributes: gold }, failed("E", "1"));
        await act(store, reopening(over, attributes === undefined ? {} : { attributes }), { id });
        const run = await runOf(store, id);
        assert.deepEqual([run.errorName, run.errorCode, run.attributes], [null, null, attributes === undefined ? gold : attributes], id);
      }
      assert.deepEqual(await found(store, { errorName: "E" }), []);
      assert.deepEqual(await found(store, { attribute: { name: "tier", text: '"gold"' } }), ["kept"]);
    }),

    runCase("a run that was purged or removed is not found, and a later run with its id has its own attributes", async (scene) => {
      const store = await scene.store();
      const labels = { scope: "acme", attributes: gold };
      await play(store, { id: "purged", ...labels, retentionMs: 0 }, failed("E", "1"));
      await play(store, { id: "removed", ...labels }, failed("E", "1"));
      await act(store, { kind: "remove" }, { id: "removed" });
      await scene.until("the run is purged", async () => (await store.runs.purge(100)) === 1);
      for (const filter of [{ attribute: { name: "tier", text: '"gold"' } }, { errorName: "E" }, { scope: "acme" }])
        assert.deepEqual(await found(store, filter), []);
      for (const id of ["purged", "removed"]) await create(store, { id, attributes: plain });
      assert.deepEqual(await found(store, { attribute: { name: "tier", text: '"gold"' } }), []);
      assert.deepEqual(await found(store, { attribute: { name: "tier", text: '"plain"' } }), ["purged", "removed"]);
    }),

    runCase("hooks are listed by token, of a run or of a scope, in pages; a run that ended has none", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const hooksOf = (...tokens: string[]) => firstOf({ hooks: tokens.map((token) => hookOf(token)) });
      await begin(store, { id: "a", scope: "acme", first: hooksOf("t1", "t4") });
      await begin(store, { id: "b", scope: "Acme ", first: hooksOf("t2") });
      const owned = await begin(store, { id: "c", first: hooksOf("t3") });
      const later = await append(store, await begin(store, { id: "d", scope: "acme" }), { hooks: [hookOf("t5")] });
      const list = async (query: object) => (await other.runs.hooks({ limit: 10, ...query })).map(({ token, run }) => `${token} ${run}`);
      assert.deepEqual(await list({}), ["t1 a", "t2 b", "t3 c", "t4 a", "t5 d"]);
      assert.deepEqual(await list({ limit: 2, after: "t1" }), ["t2 b", "t3 c"]);
      assert.deepEqual(await list({ scope: "acme" }), ["t1 a", "t4 a", "t5 d"]);
      assert.deepEqual(await list({ scope: "acme", limit: 1, after: "t1" }), ["t4 a"]);
      assert.deepEqual(
        [await list({ run: "a" }), await list({ run: "a", scope: "Acme " }), await list({ run: "missing" })],
        [["t1 a", "t4 a"], [], []],
      );
      await append(store, owned, { next: ended() });
      await append(store, later, { hooks: [{ drop: "t5" }] });
      assert.deepEqual(await list({}), ["t1 a", "t2 b", "t4 a"]);
      const [hook] = await other.runs.hooks({ limit: 1 });
      assert.deepEqual({ ...hook }, { ...(await other.runs.hook("t1")) });
    }),

    // Labels are written with the start of many runs in one flush, as those of one statement.
    runCase("starts of one flush keep their own labels", async (scene) => {
      const store = await scene.store();
      const starts = numbers(30).map((i) => ({
        id: `run ${i}`,
        first: i % 2 === 0 ? null : firstOf(),
        ...(i % 3 === 0 ? { scope: `scope ${i % 9}` } : {}),
        ...(i % 4 === 0 ? { attributes: attributesOf({ n: i }) } : {}),
      }));
      await Promise.all(starts.map((start) => create(store, start)));
      for (const { id, scope = "", attributes = null } of starts) {
        const run = await runOf(store, id);
        assert.deepEqual([run.scope, run.attributes], [scope, attributes], id);
      }
      assert.deepEqual(await found(store, { attribute: { name: "n", text: "12" } }), ["run 12"]);
    }),
  ],
};
