import { InvalidInputError } from "onceflow";
import {
  createHook,
  defineHook,
  type Hook,
  type RetryableErrorOptions,
  type TypedHook,
  type WorkflowWritableStreamOptions,
  workflow,
} from "onceflow/workflow";
import {
  getHookByToken,
  type StopSleepOptions,
  type StopSleepResult,
  start,
  type WorkflowReadableStream,
  type WorkflowReadableStreamOptions,
} from "onceflow/workflow/api";
import { expect, expectTypeOf, test, vi } from "vitest";
import { thrownBy } from "../../kit/thrown-by.js";
import { until } from "../../kit/until.js";
import { memoryOnly } from "./scene.js";

const greet = workflow("compat greet", async (name: string = "nobody", times: number = 1) => `hello ${name}`.repeat(times));

test("start({ workflowId }) starts the workflow with that id, with arguments and options", async () => {
  const store = await memoryOnly();
  expect(greet.workflowId).toBe("compat greet");
  const run = await start<string>({ workflowId: greet.workflowId }, ["ann", 2], { store, id: "by id" });
  expect(await run.returnValue).toBe("hello annhello ann");
  expect((await start({ workflowId: "compat greet" }, ["ann", 2], { store, id: "by id" })).mismatch).toBe(false);
  expect(await (await start({ workflowId: "compat greet" }, { store })).returnValue).toBe("hello nobody");
});

test("start(workflow, options) takes the options second if there are no arguments", async () => {
  const store = await memoryOnly();
  const run = await start(greet as () => Promise<string>, { store, id: "second", deploymentId: "latest" });
  expect([run.id, await run.returnValue]).toEqual(["second", "hello nobody"]);
});

test("deploymentId is accepted and ignored", async () => {
  const store = await memoryOnly();
  const first = await start(greet, ["ann"], { store, id: "deployed", deploymentId: "dpl_1" });
  const second = await start(greet, ["ann"], { store, id: "deployed", deploymentId: "dpl_2" });
  expect([first.id, second.id, second.mismatch]).toEqual(["deployed", "deployed", false]);
});

test("a workflow that is not defined in this process can be started by its id, with one warning; a malformed id is refused", async () => {
  const store = await memoryOnly();
  const warned = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
  try {
    for (let i = 0; i < 2; i++) expect(await (await start({ workflowId: "compat elsewhere" }, [], { store })).status).toBe("pending");
    expect(warned.mock.calls.map(([text]) => String(text))).toEqual([
      expect.stringMatching(/"compat elsewhere".*not defined in this process/),
    ]);
  } finally {
    warned.mockRestore();
  }
  const start_ = start as (...args: unknown[]) => Promise<unknown>;
  for (const workflowId of ["", "a#b", 7, undefined])
    expect(await thrownBy(start_({ workflowId }, [], { store })), String(workflowId)).toBeInstanceOf(InvalidInputError);
  expect(await thrownBy(start_({}, [], { store }))).toBeInstanceOf(InvalidInputError);
  expect(await thrownBy(start_(greet, "ann", { store }))).toBeInstanceOf(InvalidInputError);
});

test("HookInfo has a hookId that is unique in the store", async () => {
  const store = await memoryOnly();
  const waits = workflow("compat two hooks", async (token: string) => {
    const hooks = [createHook({ token: `${token}:a` }), createHook({ token: `${token}:b` })] as const;
    return await Promise.all(hooks);
  });
  for (const token of ["x", "y"]) await start(waits, [token], { store, id: token });
  const tokens = ["x:a", "x:b", "y:a", "y:b"];
  await until("the hooks exist", async () => {
    const found = await Promise.all(tokens.map((token) => getHookByToken(token, { store }).catch(() => undefined)));
    return found.every((hook) => hook !== undefined);
  });
  const ids = await Promise.all(tokens.map(async (token) => (await getHookByToken(token, { store })).hookId));
  expect(ids).toEqual(["x/hook#0", "x/hook#1", "y/hook#0", "y/hook#1"]);
});

test("the types of the Workflow DevKit exist and match ours", () => {
  const approval = defineHook<{ approved: boolean }>();
  expectTypeOf(approval).toEqualTypeOf<TypedHook<{ approved: boolean }>>();
  expectTypeOf<TypedHook.Input<typeof approval>>().toEqualTypeOf<{ approved: boolean }>();
  const length = { "~standard": { version: 1, vendor: "test", validate: (value: unknown) => ({ value: String(value).length }) } } as const;
  const typed = defineHook({ schema: length as typeof length & { "~standard": { types?: { input: string; output: number } } } });
  expectTypeOf(typed.create).returns.toEqualTypeOf<Hook<number>>();
  expectTypeOf(typed.resume).parameter(1).toEqualTypeOf<string>();
  expectTypeOf<WorkflowWritableStreamOptions>().toEqualTypeOf<{ readonly namespace?: string }>();
  expectTypeOf<WorkflowReadableStreamOptions["startIndex"]>().toEqualTypeOf<number | undefined>();
  expectTypeOf<WorkflowReadableStream<string>>().toExtend<ReadableStream<string>>();
  expectTypeOf<RetryableErrorOptions["retryAfter"]>().toEqualTypeOf<number | string | Date | undefined>();
  expectTypeOf<StopSleepOptions>().toEqualTypeOf<{ readonly correlationIds?: readonly string[] }>();
  expectTypeOf<StopSleepResult>().toEqualTypeOf<{ readonly stoppedCount: number }>();
});
