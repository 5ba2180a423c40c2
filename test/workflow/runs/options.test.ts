import { configure, open, type Store } from "onceflow";
import { testWorkflows } from "onceflow/testing";
import {
  createHook,
  createWebhook,
  defineHook,
  fetch,
  getWritable,
  RetryableError,
  sleep,
  step,
  stepOptions,
  work,
  workflow,
} from "onceflow/workflow";
import {
  getRun,
  type JournalItem,
  listRuns,
  readAttempts,
  readJournal,
  resolveStep,
  resumeHook,
  resumeWebhook,
  start,
  webhookHandler,
} from "onceflow/workflow/api";
import { expect, onTestFinished, test } from "vitest";
import { until } from "../../kit/until.js";
import { captureWarnings } from "../../kit/warnings.js";
import { importTransformed } from "../../transform/transformed.js";
import { writeRun } from "../steps/written-run.js";

type Assignable = Record<string, unknown>;

/** A step of a transformed file, whose properties the test may set; they are removed after the test. */
async function chargeStep() {
  const code = [
    "export const calls: string[] = [];",
    'export async function charge(order: string) { "use step"; calls.push(order); throw new Error("declined"); }',
    'export async function pay(order: string) { "use workflow"; await charge(order); }',
  ];
  type Exports = { calls: string[]; charge: (order: string) => Promise<void>; pay: (order: string) => Promise<void> };
  const { calls, charge, pay } = await importTransformed<Exports>({ "pay.ts": code.join("\n") });
  const assigned = charge as unknown as Assignable;
  onTestFinished(() => {
    for (const name of Object.keys(assigned)) delete assigned[name];
  });
  return { calls, charge, pay, assigned };
}

async function memory(): Promise<Store> {
  const store = await open("memory:");
  onTestFinished(() => store.close());
  return store;
}

const wrong: readonly [string, (charge: Assignable) => void, RegExp][] = [
  [
    "fn.maxRetires",
    (charge) => (charge["maxRetires"] = 0),
    /charge": maxRetires: is not read from the function; did you mean "maxRetries"\?/,
  ],
  ["fn.maxRetry", (charge) => (charge["maxRetry"] = 0), /did you mean "maxRetries"\?/],
  ["fn.retries", (charge) => (charge["retries"] = 0), /did you mean "maxRetries"\?/],
  ["fn.option", (charge) => (charge["option"] = {}), /did you mean "options"\?/],
  ["fn.timeoutMs", (charge) => (charge["timeoutMs"] = 5), /timeoutMs: is not read from the function; assign options = \{ timeoutMs: … \}/],
  [
    "options.maxRetry",
    (charge) => (charge["options"] = { maxRetry: 0 }),
    /charge": maxRetry: is not an option; did you mean "maxRetries"\?/,
  ],
  ["options.retries", (charge) => (charge["options"] = { retries: 0 }), /did you mean "maxRetries"\?/],
  ["options.foo", (charge) => (charge["options"] = { foo: 0 }), /foo: is not an option; options: maxRetries, backoff/],
  [
    "options.backoff.min",
    (charge) => (charge["options"] = { backoff: { minMS: 0 } }),
    /backoff: minMS: is not an option; did you mean "minMs"\?/,
  ],
  ["options that are not an object", (charge) => (charge["options"] = 3), /options: must be an object/],
  ["a wrong value", (charge) => (charge["maxRetries"] = -1), /maxRetries: must be a whole number/],
];

test.each(wrong)("%s: start, work and tick refuse it, nothing is written, and no run fails", async (_, assign, message) => {
  const { calls, pay, assigned } = await chargeStep();
  const store = await memory();
  const worker = await work(store, { auto: false });
  await writeRun(store, { id: "waits", workflow: "workflow//pay.ts//pay", events: [["unpark", "mail", 1]] as never, input: '["a"]' });
  assign(assigned);
  await expect(start(pay, ["b"], { id: "new", store })).rejects.toThrow(message);
  await expect(worker.tick()).rejects.toThrow(message);
  await expect(work(store)).rejects.toThrow(message);
  expect(await getRun("new", { store }).exists).toBe(false);
  expect(await getRun("waits", { store }).status).toBe("running");
  expect(calls).toEqual([]);
  // With corrected options the run continues.
  for (const name of Object.keys(assigned)) delete assigned[name];
  assigned["maxRetries"] = 0;
  await worker.tick();
  expect(await getRun("waits", { store }).status).toBe("failed");
  expect(calls).toEqual(["a"]);
});

test("a worker that polls warns once and claims nothing until the option is corrected", async () => {
  const warnings = captureWarnings();
  const { calls, assigned } = await chargeStep();
  const store = await memory();
  await work(store, { pollMs: 5 });
  assigned["maxRetires"] = 0;
  await writeRun(store, { id: "waits", workflow: "workflow//pay.ts//pay", events: [["unpark", "mail", 1]] as never, input: '["a"]' });
  const about = () => warnings.filter(({ code }) => code === "ONCEFLOW_STEP_OPTIONS");
  await until("it warned", () => about().length > 0);
  expect(about()[0]?.message).toMatch(/this worker claims no runs: .*did you mean "maxRetries"\?/);
  expect(calls).toEqual([]);
  delete assigned["maxRetires"];
  assigned["maxRetries"] = 0;
  await until("the run failed", async () => (await getRun("waits", { store }).status) === "failed");
  expect(calls).toEqual(["a"]);
  expect(about()).toHaveLength(1);
});

test("properties of the function that are not options of ours are left alone", async () => {
  const { pay, assigned } = await chargeStep();
  Object.assign(assigned, { displayName: "Charge", schema: {}, id: 1, maxRetries: 0, options: { graceMs: 1, timeoutMs: undefined } });
  const store = await memory();
  await work(store);
  await expect((await start(pay, ["a"], { store })).returnValue).rejects.toThrow("declined");
});

test("an option that is assigned while a run executes does not fail it", async () => {
  const { pay, assigned } = await chargeStep();
  const store = await memory();
  await work(store);
  const late = step("late", async () => {
    assigned["options"] = { maxRetries: 0, maxRetry: 0 };
    // A step that starts a run does not refuse the start for it, either.
    return (await start(quiet, [], { store })).id;
  });
  const quiet = workflow("quiet", async () => "quiet");
  const both = workflow("both", async () => {
    await late();
    return await pay("a").catch((error: Error) => error.message);
  });
  expect(await (await start(both, [], { store })).returnValue).toContain("declined");
});

test("step and stepOptions refuse unknown options when they are called", async () => {
  const { charge } = await chargeStep();
  expect(() => step("s", async () => {}, { retries: 0 } as never)).toThrow(
    'step "s": retries: is not an option; did you mean "maxRetries"?',
  );
  expect(() => step.tx("s", async () => {}, { timeout: 0 } as never)).toThrow('did you mean "timeoutMs"?');
  expect(() => stepOptions(charge, { maxRetry: 0 } as never)).toThrow('did you mean "maxRetries"?');
  expect(() => stepOptions(charge, { maxRetries: -1 })).toThrow("maxRetries: must be a whole number");
  expect(() => stepOptions(charge, { maxRetries: "0" as never })).toThrow("must be a whole number of 0 or more, not '0'");
  expect(() => stepOptions(async () => {}, {})).toThrow("needs a step");
  expect(Object.keys(charge)).toEqual([]);
  expect(stepOptions(charge, { maxRetries: 1, key: (order) => order.toUpperCase() })).toBe(charge);
  // @ts-expect-error the compiler checks the arguments of the step
  stepOptions(charge, { key: (order: number) => String(order) });
});

test("functions with options refuse unknown options and suggest one", async () => {
  const store = await memory();
  const run = workflow("w", async () => {});
  const typo = (options: object) => ({ store, ...options }) as never;
  expect(() => (workflow as (...args: unknown[]) => unknown)("w", async () => {}, { retries: 1 })).toThrow("takes no options");
  await expect(start(run, [], typo({ ID: "x" }))).rejects.toThrow('start: ID: is not an option; did you mean "id"?');
  await expect(start(run, [], typo({ retention: 1 }))).rejects.toThrow('did you mean "retentionMs"?');
  await expect(start({ workflow: run, inpt: 1 } as never)).rejects.toThrow('did you mean "input"?');
  await start(run, [], typo({ deploymentId: "latest" }));
  await expect(work(store, { concurency: 1 } as never)).rejects.toThrow('work: concurency: is not an option; did you mean "concurrency"?');
  expect(() => configure({ stor: store } as never)).toThrow('did you mean "store"?');
  expect(() => configure({ worker: { concurency: 3 } } as never)).toThrow(
    'configure: worker: concurency: is not an option; did you mean "concurrency"?',
  );
  expect(() => configure({ worker: { concurrency: "3" } } as never)).toThrow(
    "concurrency: must be a whole number from 1 to 100000, not '3'",
  );
  expect(() => defineHook({ shema: {} } as never)).toThrow('did you mean "schema"?');
  await expect(resumeHook("t", 1, typo({ ky: "x" }))).rejects.toThrow('did you mean "key"?');
  await expect(listRuns(typo({ wrokflow: "x" }))).rejects.toThrow('did you mean "workflow"?');
  await expect(readJournal("r", typo({ limits: 1 }))).rejects.toThrow('did you mean "limit"?');
  await expect(readAttempts("r", "s", typo({ stores: 1 }))).rejects.toThrow('did you mean "store"?');
  await expect(resolveStep(typo({ stepID: 1 }), "notApplied")).rejects.toThrow('did you mean "stepId"?');
  expect(() => getRun("r", typo({ stores: 1 }))).toThrow('did you mean "store"?');
  expect(() => getRun("r", { store }).getReadable({ startindex: 1 } as never)).toThrow('did you mean "startIndex"?');
  await expect(testWorkflows({ patience: 1 } as never)).rejects.toThrow('did you mean "patienceMs"?');
  await expect((async () => await fetch("http://localhost", {}, { idempotencykey: true } as never))()).rejects.toThrow(
    'did you mean "idempotencyKey"?',
  );
});

test("they do so in a workflow, too: the code can catch it, and a run that already has its hook or child continues", async () => {
  const warnings = captureWarnings();
  const store = await memory();
  const child = workflow("child", async () => "child");
  const calls: Record<string, () => unknown> = {
    createHook: () => createHook({ tokn: "x" } as never),
    createWebhook: () => createWebhook({ respondwith: "manual" } as never),
    start: () => start(child, [], { ID: "x" } as never),
    fetch: () => fetch("http://localhost", {}, { maxRetry: 1 } as never),
  };
  const fresh = workflow("fresh", async () => {
    const messages: string[] = [];
    for (const call of Object.values(calls))
      try {
        await call();
      } catch (error) {
        messages.push((error as Error).message);
      }
    getWritable({ namspace: "x" } as never);
    return messages;
  });
  await work(store);
  expect(await (await start(fresh, [], { store })).returnValue).toEqual([
    'createHook: tokn: is not an option; did you mean "token"?',
    'createWebhook: respondwith: is not an option; did you mean "respondWith"?',
    'start: ID: is not an option; did you mean "id"?',
    'fetch: maxRetry: is not an option; did you mean "maxRetries"?',
  ]);
  await until("getWritable warned", () =>
    warnings.some(({ message }) => message.includes('getWritable: namspace is not an option; did you mean "namespace"?')),
  );

  const note = step("note", async () => "noted");
  const old = workflow("old", async () => {
    void createHook({ tokn: "x" } as never);
    await start(child, [], { ID: "x" } as never);
    return await note();
  });
  const at = 1;
  const events = [
    ["hook", "hook#0", at, "a token"],
    ["hooked", "hook#0", at, false],
    ["child", "child child#0", at, "run_child", "child"],
    ["step", "note#0", at, 1, ""],
    ["done", "note#0", at, 1, '"noted before"'],
  ] as never;
  await writeRun(store, { id: "old", workflow: "old", events });
  expect(await getRun("old", { store }).returnValue).toBe("noted before");
  expect(old).toBeTypeOf("function");
});

test("run.wakeUp refuses a misspelt option instead of ending all sleeps; run.cancel and webhookHandler refuse unknown options", async () => {
  const store = await memory();
  const worker = await work(store, { auto: false });
  const sleeper = workflow("sleeper", async () => await Promise.all([sleep("1d"), sleep("2d")]));
  const run = await start(sleeper, [], { store });
  await worker.tick();
  await expect(run.wakeUp({ correlationId: ["sleep#0"] } as never)).rejects.toThrow(
    'run.wakeUp: correlationId: is not an option; did you mean "correlationIds"?',
  );
  await expect(run.wakeUp(["sleep#0"] as never)).rejects.toThrow("is not an option");
  await expect(run.cancel({ reson: "x" } as never)).rejects.toThrow('run.cancel: reson: is not an option; did you mean "reason"?');
  await expect(run.cancel({ cleanupMs: -1 })).rejects.toThrow("cleanupMs: must be a whole number");
  await expect(run.cancel({ reason: "" })).rejects.toThrow("reason: must be a text of 1 to 2000 characters");
  await expect(run.pause({ wait: 1 } as never)).rejects.toThrow('run.pause: wait: is not an option; did you mean "waitMs"?');
  await worker.tick();
  expect(await run.sleeps).toHaveLength(2);
  expect(await run.status).toBe("running");
  expect(() => webhookHandler({ bas: 1 } as never)).toThrow("options are the second argument");
  expect(() => webhookHandler(store, { bodyBytes: 1 } as never)).toThrow('did you mean "bodyBytesMax"?');
  await expect(resumeWebhook("t", new Request("http://localhost"), { store, anserMs: 1 } as never)).rejects.toThrow(
    'did you mean "answerMs"?',
  );
});

test("RetryableError and worker.stop still work with an unknown option, and warn once", async () => {
  const warnings = captureWarnings();
  const errors = [1, 2].map(() => new RetryableError("rate limited", { retryAfterMs: 5 } as never));
  expect(errors[0]?.message).toBe("rate limited");
  const store = await memory();
  const worker = await work(store);
  await worker.stop({ grace: 1 } as never);
  const about = (what: string) => warnings.filter(({ message }) => message.startsWith(what));
  await until("worker.stop warned", () => about("worker.stop").length > 0);
  expect(about("worker.stop")[0]?.message).toContain('grace is not an option; did you mean "graceMs"?');
  expect(about('RetryableError: retryAfterMs is not an option; did you mean "retryAfter"?')).toHaveLength(1);
});

/** A workflow that contains a step whose options the test sets. */
async function nestedStep() {
  const code = [
    "export const calls: string[] = [];",
    "export const assigned: { now: object } = { now: {} };",
    'export async function note(what: string) { "use step"; calls.push(what); return what; }',
    "export async function outer(order: string) {",
    '  "use workflow";',
    '  const inner = async (what: string) => { "use step"; calls.push(what); throw new Error("declined"); };',
    "  Object.assign(inner, assigned.now);",
    '  const noted = note("noted " + order);',
    "  await inner(order);",
    "  return await noted;",
    "}",
    'export async function other() { "use workflow"; return await note("other"); }',
  ];
  type Exports = {
    calls: string[];
    assigned: { now: object };
    outer: (order: string) => Promise<string>;
    other: () => Promise<string>;
  };
  return await importTransformed<Exports>({ "outer.ts": code.join("\n") });
}

const wrongNested: readonly [string, object, RegExp][] = [
  ["an unknown option", { options: { maxRetry: 0 } }, /inner": maxRetry: is not an option; did you mean "maxRetries"\?/],
  ["a misspelt property", { maxRetires: 0 }, /did you mean "maxRetries"\?/],
  ["a wrong value", { maxRetries: -1 }, /maxRetries: must be a whole number/],
  ["a key that is not a function", { options: { key: "order" } }, /key: must be a function/],
];

test.each(wrongNested)(
  "a step inside a workflow with %s parks its run before the first attempt, and no other run",
  async (_, wrong, message) => {
    const warnings = captureWarnings();
    const { calls, assigned, outer, other } = await nestedStep();
    const store = await memory();
    const worker = await work(store);
    assigned.now = wrong;
    const run = await start(outer, ["a"], { store });
    await until("the run is parked", async () => (await run.status) === "diverged");
    expect(await run.trouble).toMatch(message);
    expect(await run.trouble).toContain("Correct its options");
    const parked = () => warnings.filter(({ code, message: text }) => code === "ONCEFLOW_RUN_PARKED" && text.includes(run.id));
    await until("it warned", () => parked().length > 0);
    expect(parked()[0]?.message).toMatch(message);
    // The same worker tries again and does not warn again.
    await run.wakeUp();
    await until("it was tried again", async () => (await store.runs.read(run.id))?.epoch !== 1 && (await run.status) === "diverged");
    expect(calls).not.toContain("a");
    expect((await readJournal(run.id, { store })).filter(isAttemptOfInner)).toEqual([]);
    // The worker starts and claims other runs.
    expect(await (await start(other, [], { store })).returnValue).toBe("other");
    await writeRun(store, { id: "waits", workflow: "workflow//outer.ts//other", events: [["unpark", "mail", 1]] as never });
    await until("another run is claimed", async () => (await getRun("waits", { store }).status) === "completed");
    // A cancel works with wrong options. With corrected options another worker continues at once.
    const doomed = await start(outer, ["b"], { store });
    await until("the second run is parked", async () => (await doomed.status) === "diverged");
    await doomed.cancel();
    await until("it is cancelled", async () => (await doomed.status) === "cancelled");
    expect(parked()).toHaveLength(1);
    await worker.stop();
    assigned.now = { maxRetries: 0 };
    await work(store);
    await expect(run.returnValue).rejects.toThrow("declined");
    expect(calls.filter((call) => call === "a")).toEqual(["a"]);
    expect(calls.filter((call) => call === "noted a")).toEqual(["noted a"]);
  },
);

test("a step inside a workflow whose attempt had begun, and whose options are now invalid, parks its run as well", async () => {
  const { calls, assigned } = await nestedStep();
  const store = await memory();
  assigned.now = { maxRetries: -1 };
  const events: Parameters<typeof writeRun>[1]["events"] = [
    ["step", "step//outer.ts//note#0", 1, 1, '["noted a"]'],
    ["step", "step//outer.ts//outer/inner#0", 1, 1, '["a"]'],
  ];
  await writeRun(store, { id: "begun", workflow: "workflow//outer.ts//outer", events, input: '["a"]' });
  const worker = await work(store);
  await until("the run is parked", async () => (await getRun("begun", { store }).status) === "diverged");
  expect(await getRun("begun", { store }).trouble).toContain("maxRetries: must be a whole number");
  expect(calls).not.toContain("a");
  await worker.stop();
});

function isAttemptOfInner({ type, id, attempt = 0 }: JournalItem): boolean {
  return type === "step" && id.includes("inner") && attempt > 0;
}
