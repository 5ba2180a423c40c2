import { readFileSync } from "node:fs";
import { replayJournal } from "onceflow/testing";
import { createHook, FatalError, getStepMetadata, sleep, step, workflow } from "onceflow/workflow";
import { getRun, readJournal, resolveStep, resumeHook, start } from "onceflow/workflow/api";
import { expect, test as plain } from "vitest";
import { gate } from "../../kit/gate.js";
import { everyStore, onStores } from "../../kit/scene.js";
import { until } from "../../kit/until.js";
import { captureWarnings } from "../../kit/warnings.js";
import { importTransformed } from "../../transform/transformed.js";
import { quick, story, untilStatus } from "../scene.js";

/** A step that ends when its gate opens, and counts its effects. */
function gated(name: string, options = {}) {
  const [began, opened] = [gate<AbortSignal>(), gate()];
  const effects: string[] = [];
  const call = step(
    name,
    async (what: string) => {
      began.open(getStepMetadata().signal);
      await opened.opened;
      effects.push(what);
      return what;
    },
    options,
  );
  return { call, effects, began: began.opened, open: () => opened.open() };
}

onStores("a step that the code does not await", everyStore, (test) => {
  test("is waited for by the run, with a warning that names the file and line of the call", async ({ scene }) => {
    const warnings = captureWarnings();
    const slow = gated("slow");
    const name = scene.name("forgetful");
    const run = workflow(name, async () => {
      slow.call("charge");
      return "returned";
    });
    const { store } = await scene.work();
    const started = await start(run, [], { id: "r", store });
    expect((await slow.began).aborted).toBe(false);
    await until("the warning came", () => warnings.some(({ message }) => message.includes(`"${name}"`)));
    expect(await started.status).toBe("running");
    slow.open();
    expect(await started.returnValue).toBe("returned");
    expect(slow.effects).toEqual(["charge"]);
    expect(await story(store, "r")).toEqual(["step slow#0", "done slow#0", "end completed"]);
    const [warning, ...more] = warnings.filter(({ message }) => message.includes(`"${name}"`));
    expect(more).toEqual([]);
    expect(warning?.code).toBe("ONCEFLOW_STEP_NOT_AWAITED");
    expect(warning?.message).toMatch(/step "slow", called at .*forgotten\.test\.ts:\d+:\d+\. /);
    expect(warning?.message).toContain(".catch(() => {})");
  });

  test("fails the run if it fails after its retries", async ({ scene }) => {
    let tries = 0;
    const broken = step(
      "broken",
      async () => {
        tries += 1;
        throw new Error("no money");
      },
      { ...quick, maxRetries: 2 },
    );
    const run = workflow(scene.name("run"), async () => {
      void broken();
      return "fine";
    });
    const { store } = await scene.work();
    const started = await start(run, [], { store });
    await expect(started.returnValue).rejects.toThrow("no money");
    expect(tries).toBe(3);
    expect(await started.status).toBe("failed");
  });

  test("fails the run, too, if it failed before the code returned", async ({ scene }) => {
    const broken = step("broken", async () => {
      throw new FatalError("no money");
    });
    const run = workflow(scene.name("run"), async () => {
      void broken();
      while (!(await look())) await sleep(1);
      return "fine";
    });
    const look = step("look", async () => (await story(store, "r")).includes("fail broken#0"));
    const { store } = await scene.work();
    const started = await start(run, [], { id: "r", store });
    await expect(started.returnValue).rejects.toThrow("no money");
  });

  test("is not waited for if .catch(() => {}) says that its outcome does not matter", async ({ scene }) => {
    const warnings = captureWarnings();
    const slow = gated("slow", { graceMs: 1 });
    const name = scene.name("run");
    const run = workflow(name, async () => {
      slow.call("log").catch(() => {});
      await note();
      return "returned";
    });
    const note = step("note", async () => void (await slow.began));
    const { store } = await scene.work();
    expect(await (await start(run, [], { id: "r", store })).returnValue).toBe("returned");
    expect(await story(store, "r")).toEqual(["step slow#0", "step note#0", "done note#0", "fail slow#0", "end completed"]);
    expect(warnings.filter(({ message }) => message.includes(`"${name}"`))).toEqual([]);
    slow.open();
  });

  test("counts as awaited with await, then, finally, all, race, any, allSettled, return and for await", async ({ scene }) => {
    const warnings = captureWarnings();
    const name = scene.name("run");
    const note = step("note", async (what: string) => what);
    const run = workflow(name, async () => {
      const seen: unknown[] = [await note("await")];
      await note("then").then((what) => seen.push(what));
      await note("finally").finally(() => {});
      await Promise.all([note("all")]);
      await Promise.race([note("race")]);
      await Promise.any([note("any")]);
      await Promise.allSettled([note("allSettled")]);
      for await (const what of [note("for await")]) seen.push(what);
      const later = note("later");
      await sleep(1);
      seen.push(await later, note("a promise") instanceof Promise);
      return note("return");
    });
    const plainSteps = workflow(`${name} plain`, () => note("returned by a plain function"));
    const { store } = await scene.work();
    expect(await (await start(run, [], { store })).returnValue).toBe("return");
    expect(await (await start(plainSteps, [], { store })).returnValue).toBe("returned by a plain function");
    const about = warnings.filter(({ message }) => message.includes(`"${name}`));
    expect(about).toHaveLength(1);
    expect(about[0]?.message).toContain('step "note"');
  });

  test("is left behind when the code throws, as before", async ({ scene }) => {
    const slow = gated("slow", { graceMs: 1 });
    const note = step("note", async () => void (await slow.began));
    const run = workflow(scene.name("run"), async () => {
      slow.call("charge");
      await note();
      throw new Error("over");
    });
    const { store } = await scene.work();
    await expect((await start(run, [], { id: "r", store })).returnValue).rejects.toThrow("over");
    expect((await slow.began).aborted).toBe(true);
    expect((await story(store, "r")).slice(-2)).toEqual(["fail slow#0", "end failed"]);
    slow.open();
  });

  test("is aborted by terminate, which ends the waiting; so does cancel, because there is no code that could clean up", async ({
    scene,
  }) => {
    const slow = gated("slow", { graceMs: 1 });
    const run = workflow(scene.name("run"), async () => {
      slow.call("charge");
      return "returned";
    });
    const { store } = await scene.work();
    const started = await start(run, [], { id: "r", store });
    const signal = await slow.began;
    await started.terminate();
    await expect(started.returnValue).rejects.toThrow("was cancelled");
    expect(String(signal.reason)).toContain("cancelled");
    expect(await story(store, "r")).toEqual(["step slow#0", "cancel run", "fail slow#0", "end cancelled"]);
    const other = await start(run, [], { id: "s", store });
    await until("its step runs", async () => (await story(store, "s")).includes("step slow#0"));
    await other.cancel();
    await expect(other.returnValue).rejects.toThrow("was cancelled");
    expect(await story(store, "s")).toEqual(["step slow#0", "stop run", "cancel run", "fail slow#0", "end cancelled"]);
    slow.open();
  });

  test("is run again by another worker if the worker dies while the run waits, and the run ends with its result", async ({ scene }) => {
    const [first, again] = [gate(), gate()];
    let attempts = 0;
    const slow = step("slow", async () => {
      attempts += 1;
      if (attempts > 1) return again.open();
      first.open();
      await new Promise(() => {});
    });
    const run = workflow(scene.name("run"), async () => {
      slow();
      return "returned";
    });
    const doomed = await scene.workAndDie();
    await start(run, [], { id: "r", store: doomed.store });
    await first.opened;
    doomed.die();
    const { store } = await scene.work();
    expect(await getRun("r", { store }).returnValue).toBe("returned");
    await again.opened;
    expect(attempts).toBe(2);
    expect((await story(store, "r")).filter((line) => !line.startsWith("claim"))).toEqual([
      "step slow#0",
      "step slow#0",
      "done slow#0",
      "end completed",
    ]);
  });

  test("is waited for outside of memory if its retry is far away; hooks and sleeps of the code do not wake the run", async ({ scene }) => {
    let tries = 0;
    const flaky = step(
      "flaky",
      async () => {
        tries += 1;
        if (tries === 1) throw new Error("not yet");
        return tries;
      },
      { backoff: { minMs: 1200, maxMs: 1200, jitter: 0 } },
    );
    const run = workflow(scene.name("run"), async () => {
      flaky();
      createHook({ token: `never ${scene.on}` }).then(() => {});
      void sleep("1h");
      return "returned";
    });
    const { store, worker } = await scene.work();
    const started = await start(run, [], { id: "r", store });
    await until("it left memory", () => worker.running === 0);
    expect(tries).toBe(1);
    // No code waits for this payload: the run waits for its step, and must not be claimed for the payload again and again.
    await resumeHook(`never ${scene.on}`, 1, { store });
    expect(await started.returnValue).toBe("returned");
    expect(tries).toBe(2);
    const lines = await story(store, "r");
    expect(lines.filter((line) => line.startsWith("got") || line.startsWith("woke"))).toEqual([]);
    expect(lines.at(-1)).toBe("end completed");
  });

  test("is aborted when the code returns if it lost a race, and its code makes no more calls", async ({ scene }) => {
    const forgotten = gated("forgotten");
    const lost = gate<AbortSignal>();
    const charged: string[] = [];
    const loser = step("loser", async () => {
      const { signal } = getStepMetadata();
      lost.open(signal);
      await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
    });
    const charge = step("charge", async () => void charged.push("charge"));
    const winner = step("winner", async () => void (await lost.opened));
    const branch = async () => {
      await loser();
      await charge();
    };
    const run = workflow(scene.name("run"), async () => {
      forgotten.call("log");
      await Promise.race([branch(), winner()]);
      return "won";
    });
    const { store } = await scene.work();
    const started = await start(run, [], { id: "r", store });
    const signal = await lost.opened;
    await until("the loser was aborted", () => signal.aborted);
    await until("its end is journaled", async () => (await story(store, "r")).includes("done loser#0"));
    expect(await started.status).toBe("running");
    forgotten.open();
    expect(await started.returnValue).toBe("won");
    expect(charged).toEqual([]);
    expect(forgotten.effects).toEqual(["log"]);
  });

  test("keeps the run open if its outcome is unknown, until a person resolves it", async ({ scene }) => {
    const pay = step(
      "pay",
      async () => {
        throw new Error("the line went dead");
      },
      { effect: "atMostOnce" },
    );
    const run = workflow(scene.name("run"), async () => {
      pay();
      return "returned";
    });
    const { store } = await scene.work();
    const started = await start(run, [], { id: "r", store });
    await untilStatus(store, "r", "unknown");
    const [item] = await readJournal("r", { store });
    await resolveStep({ reason: "test", runId: "r", stepId: item?.stepId ?? "", attempt: 1, store }, { completed: "paid" });
    expect(await started.returnValue).toBe("returned");
  });

  test("in a journal of 0.1.0, whose run ended without it, replays to the same end", async ({ scene }) => {
    const slow = step("slow", async () => {});
    const run = workflow(scene.name("run"), async () => {
      slow();
      return "returned";
    });
    const { store } = await scene.work();
    await (await start(run, [], { id: "r", store })).returnValue;
    const record = await store.runs.read("r");
    if (record === undefined) throw new Error("there is no run");
    const at = Date.now();
    const left = [
      [["fail", "slow#0", at, 1, '{"message":"still running when the run ended"}', null, "abandoned"]],
      [["fail", "slow#0", at, 1, '{"message":"aborted"}', null]],
      [["fail", "slow#0", at, 1, '{"message":"aborted"}', at + 500]],
      [["done", "slow#0", at, 1, "1"]],
      [],
    ];
    for (const verdict of left) {
      const events = [["step", "slow#0", at, 1, ""], ...verdict, ["end", "completed", at, '"returned"']];
      const journal = [{ seq: 1, epoch: 1, at, events: JSON.stringify(events) }];
      const replayed = await replayJournal({ workflow: run, run: record, journal, store });
      expect(replayed, JSON.stringify(verdict)).toEqual({ kind: "ended", status: "completed", output: '"returned"' });
    }
  });
});

plain("for a directive step the warning names the line of the call, not of the step", async () => {
  const warnings = captureWarnings();
  const { testWorkflows } = await import("onceflow/testing");
  await using runner = await testWorkflows({ ambient: false });
  const code = [
    "async function log(text: string) {",
    '  "use step";',
    "}",
    "export async function forgetful() {",
    '  "use workflow";',
    '  log("one");',
    '  ["two"].map(log);',
    "}",
  ];
  const { forgetful } = await importTransformed<{ forgetful: () => Promise<void> }>({ "flow.ts": code.join("\n") });
  await runner.result(await runner.start(forgetful));
  const about = () => warnings.filter(({ message }) => message.includes("flow.js"));
  await until("both warnings came", () => about().length >= 2);
  const lineOf = (message = "") => {
    const [, file = "", line] = /called at (\S+flow\.js):(\d+):/.exec(message) ?? [];
    return readFileSync(file, "utf8").split("\n")[Number(line) - 1]?.trim();
  };
  expect(lineOf(about()[0]?.message)).toBe('log("one");');
  expect(lineOf(about()[1]?.message)).toContain("map(log)");
});
