import { randomBytes } from "node:crypto";
import { canonicalJson, sha256 } from "../core/canonical.js";
import { encode, encodeLater, renamed, withinBytes } from "../core/codec.js";
import { InvalidInputError } from "../core/errors.js";
import { checkName } from "../core/key.js";
import { duration, oneOf } from "../core/options.js";
import { newOwner } from "../core/owner.js";
import type { RunRecord } from "../core/run.js";
import type { StartRun } from "../core/run-operation.js";
import { requireRuns, type Store } from "../core/store.js";
import { startedAside } from "./aside.js";
import { currentExecution, currentStep } from "./context.js";
import { definitionOf, type WorkflowFunction } from "./define.js";
import { RunMismatchError } from "./errors.js";
import type { Execution } from "./execution.js";
import { childIdOf } from "./identity.js";
import { never } from "./requests.js";
import { Run } from "./run-handle.js";
import { sendSafely } from "./send-mail.js";
import { ambientStore, workerOf } from "./workers.js";

export interface StartOptions {
  /** Names the run: the same id again is the same run. Default: a new one. */
  readonly id?: string;
  /** Default: the process's own store. */
  readonly store?: Store;
  /** What counts as the same input. Default: the arguments, normalised. */
  readonly fingerprint?: string;
  /** Same id, other input: the existing run with `mismatch` set (default), or RunMismatchError. */
  readonly onMismatch?: "return" | "refuse";
  /** How long the run is kept after its end. Default 30 days. */
  readonly retentionMs?: number | "forever";
}

export interface StartRequest<Args extends unknown[], Result> extends StartOptions {
  readonly workflow: WorkflowFunction<Args, Result>;
  /** One argument, whatever it is. */
  readonly input?: Args[0];
}

const retentionMsDefault = 30 * 86_400_000;

/**
 * Starts a run, and returns when it is durable. The same id again, from any process, returns the same run and never
 * starts a second one.
 *
 * @example
 * const run = await start(order, ["order-1"], { id: "order-1" });
 * await run.returnValue;
 */
export function start<Args extends unknown[], Result>(
  workflow: WorkflowFunction<Args, Result>,
  args?: Args,
  options?: StartOptions,
): Promise<Run<Result>>;
export function start<Args extends unknown[], Result>(request: StartRequest<Args, Result>): Promise<Run<Result>>;
export async function start(
  first: WorkflowFunction | StartRequest<never[], unknown>,
  args: readonly unknown[] = [],
  options: StartOptions = {},
): Promise<Run> {
  if (typeof first === "function") return await startRun(first, args, options);
  if (first === null || typeof first !== "object") throw new InvalidInputError("start", "needs a workflow, or { id, workflow, input }");
  return await startRun(first.workflow, "input" in first ? [first.input] : [], first);
}

async function startRun(from: WorkflowFunction, args: readonly unknown[], options: StartOptions): Promise<Run> {
  const asked = prepare(from, args, options);
  const execution = currentExecution();
  // In the code of a workflow nothing may wait: a replay goes by its order.
  if (execution) return startChild(execution, asked);
  const step = currentStep();
  const given = options.id ?? (step ? childIdOf(step.stepId, String(step.started++)) : undefined);
  const at = options.store ?? step?.execution.store;
  const encoded = encodedArgs(args, (given) => encodeLater(given, at?.valueBytesMax));
  // Without a turn of the event loop where there is nothing to wait for: who calls and then stops its worker has started it.
  const input = typeof encoded === "string" ? encoded : await encoded.catch(refused);
  const store = at ?? (await ambientStore());
  requireRuns(store);
  const create = startedAside(createOf(asked, { id: given ?? newRunId(), input, store }), store.asideBytes);
  const departure = await workerOf(store)?.start(create);
  if (departure === "created") return new Run(create.id, store);
  if (departure?.why === "exists") return found(store, create, departure.run, options);
  // No worker here, none with room, or it was interrupted: whoever claims it executes it.
  const answer = await sendSafely(store, create);
  return answer.kind === "exists" ? found(store, create, answer.run, options) : new Run(create.id, store);
}

/** As it was asked for, and checked. */
interface Asked {
  readonly workflow: string;
  readonly args: readonly unknown[];
  readonly options: StartOptions;
}

function prepare(from: WorkflowFunction, args: readonly unknown[], options: StartOptions): Asked {
  const { name } = definitionOf(from, "workflow");
  if (!Array.isArray(args)) throw new InvalidInputError("args", "must be an array of the workflow's arguments");
  const { id, retentionMs = retentionMsDefault, onMismatch = "return" } = options;
  if (id !== undefined) checkId(id);
  if (retentionMs !== "forever") duration("retentionMs", retentionMs);
  oneOf("onMismatch", onMismatch, ["return", "refuse"]);
  return { workflow: name, args, options };
}

/** `input`: the arguments, encoded. */
function createOf({ workflow, args, options }: Asked, { id, input, store }: { id: string; input: string; store: Store }): StartRun {
  const { retentionMs = retentionMsDefault } = options;
  return {
    verb: "start",
    id,
    workflow,
    input: withinBytes("args", input, store.valueBytesMax),
    fingerprint: fingerprintOf(args, input, options),
    parent: null,
    creator: newOwner(),
    retentionMs: retentionMs === "forever" ? null : retentionMs,
    first: null,
  };
}

function encodedArgs<Text>(args: readonly unknown[], encoded: (args: readonly unknown[]) => Text): Text {
  try {
    return encoded(args);
  } catch (error) {
    return refused(error);
  }
}

function refused(error: unknown): never {
  throw renamed("args", error);
}

/** Those of one time stand together in the store's index: new runs touch few of its pages. */
function newRunId(): string {
  return `run_${Date.now().toString(36).padStart(9, "0")}${randomBytes(12).toString("base64url")}`;
}

function checkId(id: unknown): void {
  try {
    checkName("key", id);
  } catch (error) {
    if (error instanceof InvalidInputError) throw new InvalidInputError("id", error.message.replace(/^key: /, ""));
    throw error;
  }
}

/** By meaning where JSON can say it, so that the order of members does not count; else by the encoded text. */
function fingerprintOf(args: readonly unknown[], input: string, { fingerprint }: StartOptions): string {
  if (fingerprint !== undefined) {
    if (typeof fingerprint !== "string" || fingerprint === "") throw new InvalidInputError("fingerprint", "must be a non-empty string");
    return sha256(fingerprint);
  }
  if (input.startsWith("devalue:")) return sha256(input);
  try {
    return sha256(args.length === 0 ? "[]" : canonicalJson(args, "input"));
  } catch (error) {
    // A lone surrogate, say: JSON can hold it, and no canonical text can.
    if (!(error instanceof InvalidInputError)) throw error;
    return sha256(input);
  }
}

function found(store: Store, asked: StartRun, run: RunRecord, { onMismatch }: StartOptions): Run {
  const mismatch = run.fingerprint !== asked.fingerprint || run.workflow !== asked.workflow;
  if (mismatch && onMismatch === "refuse") throw new RunMismatchError(run.id);
  return new Run(run.id, store, mismatch);
}

/** In a workflow: created with the entry that says so. Its id is derived, so that a replay means the same run. */
function startChild(execution: Execution, asked: Asked): Run | Promise<Run> {
  const { store, children } = execution;
  const { id: given } = asked.options;
  const child = createOf(asked, { id: given ?? "", input: encodedArgs(asked.args, encode), store });
  const make = (id: string): StartRun => startedAside({ ...child, id, parent: execution.id }, store.asideBytes);
  const id = children.start(asked.workflow, given, make);
  return id === undefined ? never() : new Run(id, store);
}
