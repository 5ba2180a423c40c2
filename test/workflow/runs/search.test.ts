import { InvalidInputError, type Store } from "onceflow";
import { createHook, createWebhook, step, workflow } from "onceflow/workflow";
import { countRuns, findRunsByErrorText, listHooks, listRuns, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { everyStore, onStores } from "../../kit/scene.js";
import { untilReleased, untilStatus } from "../scene.js";

const hourMs = 3_600_000;

class DeclinedError extends Error {
  override readonly name = "DeclinedError";
  readonly code: string;
  constructor(message: string, code: string) {
    super(message);
    this.code = code;
  }
}

onStores("search", everyStore, (test) => {
  /** Runs that fail with one error or another, in two scopes. */
  async function failSome(store: Store, name: string): Promise<void> {
    const fails = workflow(name, async (message: string) => {
      throw message === "" ? new TypeError("is not a function") : new DeclinedError(message, "card_declined");
    });
    const messages = ["Card declined: limit", "", "card DECLINED: stolen", "no money"];
    for (const [i, message] of messages.entries()) {
      const run = await start(fails, [message], { id: `f-${i}`, store, ...(i === 2 ? { scope: "acme" } : {}) });
      await expect(run.returnValue).rejects.toThrow();
    }
  }

  test("failed runs are found by the name and the code of their error, and say why they failed", async ({ scene }) => {
    const { store } = await scene.work();
    await failSome(store, scene.name("fails"));
    const ids = async (search: object) => (await listRuns({ store, ...search })).items.map(({ id }) => id);
    expect(await ids({ errorName: "DeclinedError" })).toEqual(["f-3", "f-2", "f-0"]);
    expect(await ids({ errorCode: "card_declined", scope: "acme" })).toEqual(["f-2"]);
    expect(await ids({ errorName: "TypeError" })).toEqual(["f-1"]);
    const [run] = (await listRuns({ store, errorName: "TypeError" })).items;
    expect(run?.error).toEqual({ name: "TypeError", code: undefined, message: "is not a function" });
    const from = new Date(Date.now() - hourMs);
    expect(await ids({ endedAfter: from, status: "failed" })).toEqual(["f-3", "f-2", "f-1", "f-0"]);
    expect(await ids({ endedBefore: from })).toEqual([]);
    expect(await ids({ idPrefix: "f-" })).toEqual(["f-0", "f-1", "f-2", "f-3"]);
    const counts = await countRuns({ store });
    expect([counts.failed, counts.running]).toEqual([
      { count: 4, capped: false },
      { count: 0, capped: false },
    ]);
    expect((await countRuns({ store, errorName: "DeclinedError" })).failed.count).toBe(3);
  });

  test("a long error message is shown, too, and text is found in messages within a window", async ({ scene }) => {
    const { store } = await scene.work();
    await failSome(store, scene.name("fails"));
    const long = workflow(scene.name("long"), async () => {
      throw new Error(`${"long ".repeat(600)}needle`);
    });
    await expect((await start(long, [], { id: "long", store })).returnValue).rejects.toThrow();
    const day = { createdAfter: new Date(Date.now() - hourMs), createdBefore: new Date(Date.now() + hourMs) };
    const found = await findRunsByErrorText({ store, text: "card declined", ...day });
    expect([found.items.map(({ id }) => id), found.isComplete, found.scanned, found.cursor]).toEqual([["f-2", "f-0"], true, 5, undefined]);
    expect((await findRunsByErrorText({ store, text: "needle", ...day })).items.map(({ id }) => id)).toEqual(["long"]);
    const first = await findRunsByErrorText({ store, text: "declined", limit: 1, ...day });
    expect([first.items.map(({ id }) => id), first.isComplete]).toEqual([["f-2"], false]);
    const rest = await findRunsByErrorText({ store, text: "declined", cursor: first.cursor ?? "", ...day });
    expect([rest.items.map(({ id }) => id), rest.isComplete]).toEqual([["f-0"], true]);
    expect((await findRunsByErrorText({ store, text: "declined", scope: "acme", ...day })).items.map(({ id }) => id)).toEqual(["f-2"]);
    const earlier = { createdAfter: new Date(0), createdBefore: new Date(hourMs) };
    expect(await findRunsByErrorText({ store, text: "declined", ...earlier })).toMatchObject({ items: [], isComplete: true, scanned: 0 });
    const month = { createdAfter: new Date(0), createdBefore: new Date(32 * 24 * hourMs) };
    for (const wrong of [
      { text: "", ...day },
      { text: "x", ...month },
      { text: "x", createdAfter: day.createdAfter },
      { text: "x", ...day, limit: 0 },
    ])
      await expect(findRunsByErrorText({ store, ...wrong } as never)).rejects.toThrow(InvalidInputError);
  });

  test("runs that need a person, and hooks of runs", async ({ scene }) => {
    const doubtful = step("doubtful", async () => Promise.reject(new Error("lost")), { effect: "atMostOnce" });
    const asks = workflow(scene.name("asks"), async () => await doubtful());
    const waits = workflow(scene.name("waits"), async (token: string) => {
      const [hook, webhook] = [createHook({ token, metadata: { why: token } }), createWebhook()];
      await Promise.race([hook, webhook]);
    });
    const { store } = await scene.work({ workflows: [asks, waits] });
    await start(asks, [], { id: "a", store, scope: "acme" });
    await untilStatus(store, "a", "unknown");
    await start(waits, ["t-1"], { id: "w-1", store });
    await start(waits, ["t-2"], { id: "w-2", store, scope: "acme" });
    for (const id of ["w-1", "w-2"]) await untilReleased(store, id);
    for (const search of [{ needsPerson: true }, { needsPerson: true, scope: "acme" }] as const) {
      const { items } = await listRuns({ store, ...search });
      expect(items.map(({ id, needsPerson }) => [id, needsPerson])).toEqual([["a", true]]);
    }
    expect((await listRuns({ store, needsPerson: true, scope: "other" })).items).toEqual([]);
    const hooks = (await listHooks({ store })).items;
    expect(hooks).toHaveLength(4);
    expect((await listHooks({ store, scope: "acme" })).items.map(({ runId }) => runId)).toEqual(["w-2", "w-2"]);
    const [named] = (await listHooks({ store, runId: "w-1" })).items.filter(({ token }) => token === "t-1");
    expect(named).toMatchObject({ runId: "w-1", metadata: { why: "t-1" } });
    const first = await listHooks({ store, limit: 3 });
    const rest = await listHooks({ store, limit: 3, cursor: first.cursor ?? "" });
    expect([...first.items, ...rest.items]).toEqual(hooks);
    expect(rest.cursor).toBeUndefined();
  });

  test("a combination that is not served names the nearest ones; a cursor belongs to the order of its list", async ({ scene }) => {
    const store = await scene.open();
    const none = workflow(scene.name("none"), async () => 1);
    for (const id of ["a", "b"]) await start(none, [], { id, store });
    const error = await listRuns({ store, attribute: { name: "n", value: 1 }, workflow: "w", status: "failed" }).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(InvalidInputError);
    expect((error as Error).message).toContain("workflow, status, attribute");
    expect((error as Error).message).toContain("attribute, optionally with scope, created");
    const { cursor = "" } = await listRuns({ store, idPrefix: "a", limit: 1 });
    await expect(listRuns({ store, cursor })).rejects.toThrow(/other filters/);
    const wrong = [
      { scope: "" },
      { needsPerson: false },
      { createdAfter: "yesterday" },
      { createdAfter: new Date(Number.NaN) },
      { attribute: { name: "n" } },
      { attribute: { name: "n", value: 1, more: 1 } },
      { attribute: "n" },
      { idPrefix: "" },
      { erorName: "x" },
    ];
    for (const search of wrong) {
      await expect(listRuns({ store, ...(search as object) }), JSON.stringify(search)).rejects.toThrow(InvalidInputError);
      await expect(countRuns({ store, ...(search as object) }), JSON.stringify(search)).rejects.toThrow(InvalidInputError);
    }
    for (const search of [{ scope: "" }, { limit: 0 }, { cursor: "x" }, { workflow: "w" }])
      await expect(listHooks({ store, ...(search as object) }), JSON.stringify(search)).rejects.toThrow(InvalidInputError);
  });
});
