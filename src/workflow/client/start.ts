import { InvalidInputError } from "../../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../../core/errors/known-options.js";
import { checkName } from "../../core/ledger/key.js";
import { duration, oneOf } from "../../core/ledger/options.js";
import { newOwner } from "../../core/ledger/owner.js";
import type { StartRun } from "../../core/runs/operation.js";
import type { RunRecord } from "../../core/runs/run.js";
import { requireStore } from "../../core/store/require-store.js";
import { requireRuns, type Store } from "../../core/store/store.js";
import { canonicalJson, sha256 } from "../../core/values/canonical.js";
import { encode, encodeLater, renamed, withinBytes } from "../../core/values/codec.js";
import { isPlainObject } from "../../core/values/plain-object.js";
import { randomText } from "../../core/values/random-text.js";
import { checkSteps } from "../define/check-steps.js";
import { currentExecution, currentStep, type WorkflowContext } from "../define/context.js";
import { checkWorkflowName, definedWorkflows, definitionOf, type WorkflowFunction } from "../define/definition.js";
import { RunMismatchError } from "../define/errors.js";
import { presentName, underFormerNames } from "../define/registry.js";
import { isStoredAs, type Renamed } from "../define/renamed.js";
import { startedAside } from "../journal/aside.js";
import { childIdOf } from "../journal/identity.js";
import { worksHere } from "../process/ambient-store.js";
import { workerOf } from "../process/local-worker.js";
import { pendingForever } from "../replay/requests.js";
import { withoutWritable } from "../streams/writable.js";
import { lookForOverdue, noticeOverdue } from "../waiting/overdue.js";
import { storeWithWorker } from "../worker/workers.js";
import { Run } from "./run-handle.js";
import { sendSafely } from "./send-mail.js";

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
  /**
   * Accepted and ignored, for code written for the Workflow DevKit: a run is executed by any worker that has its workflow,
   * under the code that this worker has.
   */
  readonly deploymentId?: string;
}

/**
 * A workflow by its stored name: `workflow//src/orders.ts//checkout`, or the name given to `workflow(name, fn)`. It need
 * not be defined in this process; the run is pending until a worker that has it claims it.
 */
export interface WorkflowById {
  readonly workflowId: string;
}

const optionNames: OptionNames<StartOptions> = {
  id: true,
  store: true,
  fingerprint: true,
  onMismatch: true,
  retentionMs: true,
  deploymentId: true,
};

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
export function start<Result>(workflow: WorkflowFunction<[], Result>, options: StartOptions): Promise<Run<Result>>;
export function start<Result = unknown>(workflow: WorkflowById, args?: readonly unknown[], options?: StartOptions): Promise<Run<Result>>;
export function start<Result = unknown>(workflow: WorkflowById, options: StartOptions): Promise<Run<Result>>;
export function start<Args extends unknown[], Result>(request: StartRequest<Args, Result>): Promise<Run<Result>>;
export async function start(
  first: WorkflowFunction | WorkflowById | StartRequest<never[], unknown>,
  second: readonly unknown[] | StartOptions = [],
  third?: StartOptions,
): Promise<Run> {
  if (typeof first !== "function" && (first === null || typeof first !== "object"))
    throw new InvalidInputError("start", "needs a workflow, { workflowId }, or { id, workflow, input }");
  if (typeof first === "object" && "workflow" in first) return await startRun(first.workflow, "input" in first ? [first.input] : [], first);
  // Without arguments the options may come second.
  if (third === undefined && isPlainObject(second)) return await startRun(first, [], second);
  return await startRun(first, second as readonly unknown[], third ?? {});
}

async function startRun(from: WorkflowFunction | WorkflowById, args: readonly unknown[], options: StartOptions): Promise<Run> {
  const asked = prepare(from, args, options);
  const execution = currentExecution();
  // In the code of a workflow nothing may wait: a replay goes by its order.
  if (execution) return startChild(execution, asked);
  asked.check();
  if (options.store !== undefined) requireStore(options.store);
  const step = currentStep();
  // A step must not fail, and its run with it, for an option of another step.
  if (step === undefined) checkSteps();
  const given = options.id ?? (step ? childIdOf(step.stepId, String(step.started++)) : undefined);
  const at = options.store ?? step?.execution.store;
  const encoded = encodedArgs(args, (given) => encodeLater(given, at?.valueBytesMax));
  // Without a turn of the event loop where there is nothing to wait for: who calls and then stops its worker has started it.
  const input = withoutWritable("args", typeof encoded === "string" ? encoded : await encoded.catch(refused));
  const store = at ?? (await storeWithWorker());
  requireRuns(store);
  const create = startedAside(createOf(asked, { id: given ?? newRunId(), input, store }), store.asideBytes);
  const worker = workerOf(store);
  const departure = await worker?.start(create);
  if (departure === "created") return new Run(create.id, store);
  if (departure?.why === "refused") throw departure.error;
  if (departure?.why === "exists") return found(store, create, departure.run, asked);
  // No worker here, none with room, or it was interrupted: the worker that claims it executes it.
  const answer = await sendSafely(store, create);
  if (worker === undefined) lookForOverdue(store, create.workflow);
  return answer.kind === "exists" ? found(store, create, answer.run, asked) : new Run(create.id, store);
}

/** As it was asked for, and checked. */
interface Asked {
  readonly workflow: Renamed;
  readonly args: readonly unknown[];
  readonly options: StartOptions;
  /** Throws for an unknown option. */
  readonly check: () => void;
}

function prepare(from: WorkflowFunction | WorkflowById, args: readonly unknown[], options: StartOptions): Asked {
  const workflow = typeof from === "object" && "workflowId" in from ? workflowById(from.workflowId) : definitionOf(from, "workflow");
  if (!Array.isArray(args)) throw new InvalidInputError("args", "must be an array of the workflow's arguments");
  const { id, retentionMs = retentionMsDefault, onMismatch = "return" } = options;
  if (id !== undefined) checkId(id);
  if (retentionMs !== "forever") duration("retentionMs", retentionMs);
  oneOf("onMismatch", onMismatch, ["return", "refuse"]);
  const names = "workflow" in options ? { ...optionNames, workflow: true as const, input: true as const } : optionNames;
  return { workflow, args, options, check: () => knownOptions("start", options, names) };
}

const namesWarned = new Set<string>();

/** By its name, or by one that earlier versions gave it. */
function workflowById(id: unknown): Renamed {
  if (typeof id !== "string") throw new InvalidInputError("workflowId", "must be a string: the stored name of a workflow");
  checkWorkflowName("workflowId", id);
  const defined = definedWorkflows().get(presentName("workflow", id));
  if (defined === undefined && worksHere() && !namesWarned.has(id)) {
    namesWarned.add(id);
    process.emitWarning(
      `[onceflow] workflow "${id}" is started by its id and is not defined in this process; its runs are pending until a worker that has it claims them. ` +
        "Check the spelling, import its module, or set configure({ worker: false }) where this process only starts runs.",
    );
  }
  return defined ?? { name: id };
}

/** `input`: the arguments, encoded. */
function createOf({ workflow, args, options }: Asked, { id, input, store }: { id: string; input: string; store: Store }): StartRun {
  const { retentionMs = retentionMsDefault } = options;
  return {
    verb: "start",
    id,
    workflow: workflow.name,
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
  return `run_${Date.now().toString(36).padStart(9, "0")}${randomText(12)}`;
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

function found(store: Store, create: StartRun, run: RunRecord, { workflow, args, options }: Asked): Run {
  const hasName = isStoredAs(workflow, run.workflow);
  const hasInput = run.fingerprint === create.fingerprint || isFormerFingerprint(run.fingerprint, args, options);
  noticeOverdue(store, [run]);
  const mismatch = !hasName || !hasInput;
  if (mismatch && options.onMismatch === "refuse") throw new RunMismatchError(run.id);
  return new Run(run.id, store, mismatch);
}

/** Whether an earlier version made this one of the arguments: with the names that steps and workflows among them had then. */
function isFormerFingerprint(print: string | null, args: readonly unknown[], options: StartOptions): boolean {
  try {
    return underFormerNames(() => fingerprintOf(args, encode(args), options)).some((each) => each === print);
  } catch {
    // Arguments that have to be read before they can be encoded have none.
    return false;
  }
}

/** In a workflow: created with the entry that says so. Its id is derived, so that a replay means the same run. */
function startChild(execution: WorkflowContext, asked: Asked): Run | Promise<Run> {
  const { store, children } = execution;
  const { id: given } = asked.options;
  const text = encodedArgs(asked.args, encode);
  // A run that was recorded before writables were refused must find its journal again.
  const input = isJournaled(execution, asked.workflow) ? text : withoutWritable("args", text);
  const child = createOf(asked, { id: given ?? "", input, store });
  const make = (id: string): StartRun => startedAside({ ...child, id, parent: execution.id }, store.asideBytes);
  const refuse = asked.options.onMismatch === "refuse";
  const started = children.start({ workflow: asked.workflow, given, refuse, make, check: asked.check });
  if (started === undefined) return pendingForever();
  const { id, mismatch } = started;
  return mismatch === undefined ? new Run(id, store) : mismatch.then((differs) => new Run(id, store, differs));
}

/** Whether the journal has the next start of this workflow. */
function isJournaled({ requests }: WorkflowContext, { name, former = [] }: Renamed): boolean {
  const n = requests.countSoFar(`child ${name}`);
  return [name, ...former].some((each) => requests.has(`child ${each}#${n}`));
}
