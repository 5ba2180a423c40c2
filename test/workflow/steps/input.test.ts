import { StepMismatchError, sleep, step, workflow } from "onceflow/workflow";
import { getRun, readJournal, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { gate } from "../../kit/gate.js";
import { everyStore, onStores } from "../../kit/scene.js";
import { thrownBy } from "../../kit/thrown-by.js";
import { story, untilStatus } from "../scene.js";
import { writeRun } from "./written-run.js";

const at = Date.UTC(2020, 0, 1);

onStores("the arguments of a step", everyStore, (test) => {
  test("key: the same key with other arguments is an error that the code can catch", async ({ scene }) => {
    const seen: string[] = [];
    const setRole = step(
      "setRole",
      async (user: string, role: string) => {
        seen.push(`${user} ${role}`);
        return `${user} is ${role}`;
      },
      { key: (user) => user },
    );
    const run = workflow(scene.name("run"), async () => {
      const first = await setRole("ann", "viewer");
      const second = await setRole("ann", "admin").catch((error: unknown) => error as StepMismatchError);
      return [
        first,
        await setRole("ann", "viewer"),
        second instanceof StepMismatchError && [second.code, second.step, second.key, second.message],
      ];
    });
    const { store } = await scene.work();
    const started = await start(run, [], { id: "r", store });
    expect(await started.returnValue).toEqual([
      "ann is viewer",
      "ann is viewer",
      ["STEP_MISMATCH", "setRole", "ann", expect.stringContaining('with the key "ann" and other arguments')],
    ]);
    expect(seen).toEqual(["ann viewer"]);
    expect(await story(store, "r")).toEqual(["step setRole:ann", "done setRole:ann", "mismatch mismatch setRole:ann#0", "end completed"]);
  });

  test("key: the error fails the run if it is not caught or not even awaited", async ({ scene }) => {
    const setRole = step("setRole", async (user: string, role: string) => `${user} ${role}`, { key: (user) => user });
    const thrown = workflow(scene.name("run"), async () => [await setRole("ann", "viewer"), await setRole("ann", "admin")]);
    const forgotten = workflow(scene.name("run"), async () => {
      await setRole("ann", "viewer");
      void setRole("ann", "admin");
      return "fine";
    });
    const { store } = await scene.work();
    for (const run of [thrown, forgotten]) {
      const { cause } = await thrownBy((await start(run as () => Promise<unknown>, [], { store })).returnValue);
      expect(cause).toMatchObject({ code: "STEP_MISMATCH" });
    }
  });

  test("key: a replay refuses the same call again, and continues after it", async ({ scene }) => {
    const reached = gate();
    let holds = 0;
    const setRole = step("setRole", async (user: string, role: string) => `${user} is ${role}`, { key: (user) => user });
    const hold = step("hold", async () => {
      holds += 1;
      reached.open();
      if (holds === 1) await new Promise(() => {});
    });
    const run = workflow(scene.name("run"), async () => {
      const all = await Promise.allSettled([setRole("ann", "viewer"), setRole("ann", "admin"), setRole("ann", "owner")]);
      await hold();
      return all.map(({ status }) => status);
    });
    const doomed = await scene.workAndDie();
    await start(run, [], { id: "r", store: doomed.store });
    await reached.opened;
    doomed.die();
    const { store } = await scene.work();
    expect(await getRun("r", { store }).returnValue).toEqual(["fulfilled", "rejected", "rejected"]);
    expect((await story(store, "r")).filter((line) => line.startsWith("mismatch"))).toHaveLength(2);
  });

  test("key: a run of 0.1.0 that got the first result for the second call continues with it", async ({ scene }) => {
    const name = scene.name("run");
    const roles: string[] = [];
    const setRole = step("setRole", async (user: string, role: string) => void roles.push(`${user} ${role}`), { key: (user) => user });
    const note = step("note", async () => "noted");
    workflow(name, async () => {
      const first = await setRole("ann", "viewer");
      const second = await setRole("ann", "admin");
      const noted = await note();
      await sleep(1);
      return [first, second, noted];
    });
    const store = await scene.open();
    const asked = ["step", "setRole:ann", at, 1, '["ann","viewer"]'] as const;
    const journals = [
      // The worker died during the step after the second call; after that step; during the sleep.
      [["step", "note#0", at, 1, ""]],
      [
        ["step", "note#0", at, 1, ""],
        ["done", "note#0", at, 1, '"noted"'],
      ],
      [
        ["step", "note#0", at, 1, ""],
        ["done", "note#0", at, 1, '"noted"'],
        ["sleep", "sleep#0", at, at + 1],
      ],
    ] as const;
    for (const [i, rest] of journals.entries())
      await writeRun(store, {
        id: `r${i}`,
        workflow: name,
        events: [asked, ["done", "setRole:ann", at, 1, '"ann is viewer"'], ...rest],
      });
    await scene.work({}, store);
    for (const i of journals.keys())
      expect(await getRun(`r${i}`, { store }).returnValue).toEqual(["ann is viewer", "ann is viewer", "noted"]);
    expect(roles).toEqual([]);
  });

  test("an argument that cannot be encoded is left out of the fingerprint, and the call is marked", async ({ scene }) => {
    const name = scene.name("run");
    class Connection {}
    const use = step("use", async (...args: readonly unknown[]) => args.length);
    const go = step("go", async () => {});
    const circular: Record<string, unknown> = { call: () => {}, order: 1 };
    circular["self"] = circular;
    const run = workflow(name, async (version: number) => {
      await use(() => {}, { order: 1, deep: [{ log: () => {} }, new Connection()] }, version);
      await use(circular, new Request("http://localhost/a", { method: "POST", body: "x" }));
      await use(1);
      await sleep(1);
      await go();
      return "ended";
    });
    const { store } = await scene.work();
    const started = await start(run, [1], { id: "r", store });
    expect(await started.returnValue).toBe("ended");
    const asked = (await readJournal("r", { store })).filter(({ type, id }) => type === "step" && id.startsWith("use"));
    expect(asked.map(({ detail }) => detail.slice(1))).toEqual([
      [expect.stringMatching(/^[\w-]{22}$/), "partial"],
      [expect.stringMatching(/^[\w-]{22}$/), "partial"],
      ["[1]"],
    ]);
  });

  test("the part that can be encoded is compared at a replay; a journal of 0.1.0 without fingerprint continues", async ({ scene }) => {
    const name = scene.name("run");
    const use = step("use", async (_log: () => void, _order: string) => "used");
    workflow(name, async (order: string) => [await use(() => {}, order), await use(() => {}, "same")]);
    const store = await scene.open();
    const events = (print: string, ...extent: "partial"[]) =>
      [
        ["step", "use#0", at, 1, print, ...extent],
        ["done", "use#0", at, 1, '"used before"'],
      ] as never;
    await writeRun(store, { id: "old", workflow: name, input: '["a"]', events: events("") });
    await writeRun(store, { id: "other", workflow: name, input: '["a"]', events: events("of something else", "partial") });
    await scene.work({}, store);
    expect(await getRun("old", { store }).returnValue).toEqual(["used before", "used"]);
    await untilStatus(store, "other", "diverged");
    expect(await getRun("other", { store }).trouble).toContain("step use#0");
  });
});
