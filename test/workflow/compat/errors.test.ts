import { OnceflowError } from "onceflow";
import * as ours from "onceflow/workflow";
import { getRun, resumeHook, start } from "onceflow/workflow/api";
import * as errors from "onceflow/workflow/errors";
import { describe, expect, test } from "vitest";
import { decode, encode } from "../../../src/core/values/codec.js";
import { thrownBy } from "../../kit/thrown-by.js";
import { memoryOnly } from "./scene.js";

/** As a version before WorkflowError stored it. */
const stored =
  'devalue:[["Error",1],{"kept":2},{"name":3,"message":4,"code":5,"lineage":6,"cause":8,"own":11},"RunFailedError","run \\"r\\" failed: boom","RUN_FAILED",[3,7],"OnceflowError",{"name":9,"message":10},"Error","boom",{"retryable":12,"runId":13},"false","\\"r\\""]';

describe("error classes under their Workflow DevKit names", () => {
  test("are the same classes as those of this package", () => {
    expect(errors.WorkflowRunFailedError).toBe(ours.RunFailedError);
    expect(errors.WorkflowRunCancelledError).toBe(ours.RunCancelledError);
    expect(errors.WorkflowRunNotFoundError).toBe(ours.RunNotFoundError);
    expect(errors.WorkflowRunNotCompletedError).toBe(ours.RunNotCompletedError);
    expect(errors.HookNotFoundError).toBe(ours.HookNotFoundError);
    expect(errors.HookConflictError).toBe(ours.HookConflictError);
  });

  test("WorkflowError is the base class of the engine's errors, but not of errors that user code throws", () => {
    const engine = [
      new errors.WorkflowRunFailedError("r", new Error("boom")),
      new errors.WorkflowRunCancelledError("r"),
      new errors.WorkflowRunNotFoundError("r"),
      new errors.WorkflowRunNotCompletedError("r", "running"),
      new errors.HookNotFoundError("t"),
      new errors.HookConflictError("t"),
      new errors.WorkflowNotRegisteredError("w"),
      new errors.StepNotRegisteredError("s"),
      new errors.StreamClosedError("default"),
    ];
    for (const error of engine) {
      expect([error instanceof errors.WorkflowError, errors.WorkflowError.is(error), error instanceof OnceflowError]).toEqual([
        true,
        true,
        true,
      ]);
      // Also after the error was stored and read.
      const again = decode(encode(error));
      expect([errors.WorkflowError.is(again), (again as Error).message]).toEqual([true, error.message]);
    }
    const others = [
      new errors.FatalError("f"),
      new errors.RetryableError("r"),
      new OnceflowError("o", { code: "X" }),
      new Error("e"),
      null,
      1,
    ];
    for (const error of others) expect(errors.WorkflowError.is(error)).toBe(false);
    expect(errors.WorkflowRunFailedError.is(new errors.WorkflowRunCancelledError("r"))).toBe(false);
    const own = new errors.WorkflowError("my own");
    expect([own.name, own instanceof errors.WorkflowError, own instanceof OnceflowError]).toEqual(["WorkflowError", true, true]);
    class Mine extends errors.WorkflowError {}
    expect([new Mine("m") instanceof errors.WorkflowError, new Mine("m") instanceof Mine, own instanceof Mine]).toEqual([
      true,
      true,
      false,
    ]);
  });

  test("an error that an earlier version stored is a WorkflowError and keeps its encoding", () => {
    const error = decode(stored) as Error & { cause: Error };
    expect([error instanceof errors.WorkflowError, error instanceof errors.WorkflowRunFailedError]).toEqual([true, true]);
    const made = new errors.WorkflowRunFailedError("r", new Error("boom"));
    made.stack = "";
    made.cause.stack = "";
    expect(encode(made)).toBe(stored);
  });

  test("have the expected messages, codes and properties", () => {
    expect(new errors.WorkflowRunNotFoundError("r-1")).toMatchObject({
      code: "RUN_NOT_FOUND",
      runId: "r-1",
      message: expect.stringContaining("not found"),
    });
    expect(new errors.HookNotFoundError("t-1")).toMatchObject({
      code: "HOOK_NOT_FOUND",
      token: "t-1",
      message: expect.stringContaining("not found"),
    });
    expect(new errors.HookConflictError("t-1", "r-1")).toMatchObject({
      code: "HOOK_CONFLICT",
      token: "t-1",
      runId: "r-1",
      conflictingRunId: "r-1",
      message: expect.stringContaining("already in use"),
    });
    expect(Object.keys(new errors.HookConflictError("t-1"))).not.toContain("runId");
    expect(new errors.WorkflowRunNotCompletedError("r-1", "running")).toMatchObject({
      runId: "r-1",
      status: "running",
      code: "RUN_NOT_COMPLETED",
    });
    expect(new errors.StepNotRegisteredError("s-1").stepName).toBe("s-1");
    expect(new errors.WorkflowNotRegisteredError("w-1").workflowName).toBe("w-1");
    expect(new errors.FatalError("f").fatal).toBe(true);
  });

  test("are thrown where existing code for the DevKit catches them", async () => {
    const store = await memoryOnly();
    const declined = ours.workflow("compat declined", async (code: string | undefined) => {
      throw Object.assign(new Error("declined"), code === undefined ? {} : { code });
    });
    for (const code of ["card_declined", undefined]) {
      const failed = await thrownBy((await start(declined, [code], { store })).returnValue);
      if (!errors.WorkflowRunFailedError.is(failed)) throw failed;
      expect([failed.cause.message, failed.cause.code]).toEqual(["declined", code ?? "USER_ERROR"]);
    }
    const missing = await thrownBy(getRun("compat none", { store }).status);
    expect([errors.WorkflowRunNotFoundError.is(missing), errors.WorkflowError.is(missing), missing.message.includes("not found")]).toEqual([
      true,
      true,
      true,
    ]);
    const noHook = await thrownBy(resumeHook("compat none", 1, { store }));
    expect([errors.HookNotFoundError.is(noHook), noHook.message.includes("not found")]).toEqual([true, true]);
    const waits = ours.workflow("compat waits", async () => await ours.createHook());
    const cancelled = await start(waits, [], { store });
    await cancelled.cancel();
    expect(errors.WorkflowRunCancelledError.is(await thrownBy(cancelled.returnValue))).toBe(true);
  });
});
