import { InvalidInputError } from "onceflow";
import { createHook, getStepMetadata, sleep, step, workflow } from "onceflow/workflow";
import { getRun, type JournalItem, listRuns, type RunSummary, readAttempts, readJournal, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { everyStore, onStores } from "../../kit/scene.js";
import { until } from "../../kit/until.js";
import { untilReleased, untilStatus } from "../scene.js";

onStores("reading", everyStore, (test) => {
  test("the journal has all events in order, with times, attempts and details", async ({ scene }) => {
    const flaky = step(
      "flaky",
      async (n: number) => {
        if (getStepMetadata().attempt === 1) throw new TypeError("once");
        return n * 2;
      },
      { backoff: { minMs: 1, maxMs: 1 } },
    );
    const run = workflow(scene.name("run"), async () => {
      await sleep(1);
      return await flaky(21);
    });
    const { store } = await scene.work();
    const started = await start(run, [], { id: "r", store });
    await started.returnValue;
    const items = await readJournal("r", { store });
    expect(items.map(({ type, id, attempt }) => [type, id, attempt])).toEqual([
      ["sleep", "sleep#0", undefined],
      ["woke", "sleep#0", undefined],
      ["step", "flaky#0", 1],
      ["fail", "flaky#0", 1],
      ["step", "flaky#0", 2],
      ["done", "flaky#0", 2],
      ["end", "completed", undefined],
    ]);
    const at = items.map((item) => Number(item.at));
    expect(at).toEqual([...at].sort((a, b) => a - b));
    const seqs = items.map(({ seq }) => seq);
    expect(seqs).toEqual([...seqs].sort((a, b) => a - b));
    expect(seqs[0]).toBe(1);
    expect(JSON.parse(String(items[3]?.detail[1]))).toMatchObject({ name: "TypeError", message: "once" });
    expect(items[5]?.detail[1]).toBe("42");
  });

  test("the journal can be read in pages of any size, with every entry once", async ({ scene }) => {
    const act = step("act", async (n: number) => n);
    const run = workflow(scene.name("run"), async () => {
      for (let n = 0; n < 25; n++) await act(n);
    });
    const { store } = await scene.work();
    await (await start(run, [], { id: "r", store })).returnValue;
    const whole = await readJournal("r", { store });
    expect(whole).toHaveLength(51);
    for (const limit of [1, 7, 1000]) {
      const items: JournalItem[] = [];
      for (;;) {
        const page = await readJournal("r", { store, after: items.at(-1)?.seq ?? 0, limit });
        if (page.length === 0) break;
        expect(new Set(page.map(({ seq }) => seq)).size).toBeLessThanOrEqual(limit);
        items.push(...page);
      }
      expect(items).toEqual(whole);
    }
    expect(await readJournal("missing", { store })).toEqual([]);
    await expect(readJournal("r", { store, limit: 0 })).rejects.toThrow(InvalidInputError);
    await expect(readJournal("r", { store, limit: 1001 })).rejects.toThrow(InvalidInputError);
  });

  test("the attempts of a step can be read while it runs and afterwards, over more entries than a page", async ({ scene }) => {
    let open = () => {};
    const opened = new Promise<void>((resolve) => {
      open = resolve;
    });
    const ids: string[] = [];
    const slow = step(
      "slow",
      async () => {
        const { stepId, attempt } = getStepMetadata();
        ids.push(stepId);
        if (attempt < 3) throw new Error(`failure ${attempt}`);
        await opened;
      },
      { backoff: { minMs: 1, maxMs: 1 } },
    );
    const run = workflow(scene.name("run"), async () => await slow());
    const { store } = await scene.work();
    const started = await start(run, [], { id: "r", store });
    await until("the third attempt is in progress", () => ids.length === 3);
    const verdicts = async () => (await readAttempts("r", ids[0] ?? "", { store })).map(({ verdict }) => verdict);
    expect(await verdicts()).toEqual(["failed", "failed", "running"]);
    open();
    await started.returnValue;
    expect(await verdicts()).toEqual(["failed", "failed", "completed"]);
    const [first] = await readAttempts("r", ids[0] ?? "", { store });
    expect(Number(first?.endedAt)).toBeGreaterThanOrEqual(Number(first?.startedAt));
    expect(await readAttempts("r", "step_other", { store })).toEqual([]);
    expect(await readAttempts("missing", "step_other", { store })).toEqual([]);
  });

  test("runs can be listed by workflow and by status", async ({ scene }) => {
    const [plain, failing, asleep] = ["plain", "failing", "asleep"].map((name) => scene.name(name)) as [string, string, string];
    const runs = {
      plain: workflow(plain, async () => 1),
      failing: workflow(failing, async () => Promise.reject(new Error("no"))),
      asleep: workflow(asleep, async () => await sleep("1h")),
      unclaimed: workflow(scene.name("unclaimed"), async () => 1),
    };
    const { store } = await scene.work({ workflows: [runs.plain, runs.failing, runs.asleep] });
    await (await start(runs.plain, [], { id: "p", store })).returnValue;
    await expect((await start(runs.failing, [], { id: "f", store })).returnValue).rejects.toThrow();
    await start(runs.asleep, [], { id: "a", store });
    const cancelled = await start(runs.asleep, [], { id: "c", store });
    await cancelled.cancel();
    await untilStatus(store, "c", "cancelled");
    await untilReleased(store, "a");
    await start(runs.unclaimed, [], { id: "u", store });
    const ids = async (options: object) => (await listRuns({ store, ...options })).items.map(({ id }) => id);
    expect(await ids({})).toEqual(["u", "c", "a", "f", "p"]);
    expect(await ids({ status: "completed" })).toEqual(["p"]);
    expect(await ids({ status: "failed" })).toEqual(["f"]);
    expect(await ids({ status: "running" })).toEqual(["a"]);
    expect(await ids({ status: "cancelled" })).toEqual(["c"]);
    expect(await ids({ status: "pending" })).toEqual(["u"]);
    expect(await ids({ workflow: asleep })).toEqual(["c", "a"]);
    expect(await ids({ workflow: asleep, status: "running" })).toEqual(["a"]);
    expect(await ids({ workflow: "missing" })).toEqual([]);
    const [summary] = (await listRuns({ store, status: "completed" })).items;
    expect(summary).toEqual({
      id: "p",
      workflow: plain,
      status: "completed",
      trouble: undefined,
      createdAt: expect.any(Date),
      startedAt: expect.any(Date),
      completedAt: expect.any(Date),
      owner: undefined,
      parentId: undefined,
      scope: "",
      attributes: {},
      error: undefined,
      unsettled: 0,
      needsPerson: false,
    });
    for (const bad of [{ status: "odd" }, { limit: 0 }, { limit: 1001 }, { cursor: "nonsense" }])
      await expect(listRuns({ store, ...(bad as object) })).rejects.toThrow(InvalidInputError);
  });

  test("runs are listed in pages, newest first, by a cursor; a new run does not shift the pages", async ({ scene }) => {
    const name = scene.name("many");
    const many = workflow(name, async () => 1);
    const store = await scene.open();
    for (let i = 0; i < 25; i++) await start(many, [], { id: `run ${i}: ünï`, store });
    const found: RunSummary[] = [];
    let cursor: string | undefined;
    for (;;) {
      const page = await listRuns({ store, workflow: name, limit: 10, ...(cursor === undefined ? {} : { cursor }) });
      found.push(...page.items);
      if (page.cursor === undefined) break;
      cursor = page.cursor;
      // In the same millisecond the larger id is the newer run.
      await start(many, [], { id: `unexpected ${found.length}`, store });
    }
    expect(found.map(({ id }) => id).sort()).toEqual(Array.from({ length: 25 }, (_, i) => `run ${i}: ünï`).sort());
    const created = found.map(({ createdAt }) => Number(createdAt));
    expect(created).toEqual([...created].sort((a, b) => b - a));
  });

  test("a running run names its owner, and a child names its parent", async ({ scene }) => {
    const child = workflow(scene.name("child"), async () => await createHook({ token: "t" }));
    const parent = workflow(scene.name("parent"), async () => await (await start(child)).returnValue);
    const { store, worker } = await scene.work();
    await start(parent, [], { id: "p", store });
    const { items } = await listRuns({ store });
    const born = items.find(({ id }) => id !== "p");
    expect(born?.parentId).toBe("p");
    expect([worker.owner, undefined]).toContain(items.find(({ id }) => id === "p")?.owner);
    expect(await getRun(born?.id ?? "", { store }).exists).toBe(true);
  });
});
