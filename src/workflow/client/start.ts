import { InvalidInputError } from "../../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../../core/errors/known-options.js";
import { checkName } from "../../core/ledger/key.js";
import { duration, oneOf } from "../../core/ledger/options.js";
import { newOwner } from "../../core/ledger/owner.js";
import type { StartRun } from "../../core/runs/operation.js";
import type { RunRecord } from "../../core/runs/run.js";
import { requireStore } from "../../core/store/require-store.js";
import { requireRuns, type Store } from "../../core/store/store.js";
import { type Attributes, checkAttributes, encodeAttributes } from "../../core/values/attributes.js";
import { canonicalJson, sha256 } from "../../core/values/canonical.js";
import { encode, encodeLater, renamed, withinBytes } from "../../core/values/codec.js";
import { isPlainObject } from "../../core/values/plain-object.js";
import { checkSteps } from "../define/check-steps.js";
import { currentExecution, currentStep, type WorkflowContext } from "../define/context.js";
import { checkWorkflowName, definedWorkflows, definitionOf, type WorkflowFunction } from "../define/definition.js";
import { ContextError, RunMismatchError, RunScopeError } from "../define/errors.js";
import { presentName, underFormerNames } from "../define/registry.js";
import { isStoredAs, type Renamed } from "../define/renamed.js";
import { withInputAside } from "../journal/aside.js";
import { childIdOf } from "../journal/identity.js";
import { cleanupMsDefault } from "../journal/mail/cancel-request.js";
import { mayExecuteRuns } from "../process/ambient-store.js";
import { workerOf } from "../process/local-worker.js";
import { pendingForever } from "../replay/requests.js";
import { withoutWritable } from "../streams/writable.js";
import { checkForOverdue, warnIfOverdue } from "../waiting/overdue.js";
import { storeWithWorker } from "../worker/workers.js";
import { Run } from "./run-handle.js";
import { checkId, newRunId } from "./run-id.js";
import { sendSafely } from "./send-mail.js";

/** Options of {@link start}. */
export interface StartOptions {
  /** Id of the run. A start with an id that is in use returns the existing run. Default: a new random id. */
  readonly id?: string;
  /** Default: the default store of the process, see `configure`. */
  readonly store?: Store;
  /** Identifies the input: two starts with the same fingerprint have the same input. Default: a hash of the arguments. */
  readonly fingerprint?: string;
  /** If the id is in use with another input or workflow: return the existing run with `mismatch: true` (default), or throw RunMismatchError. */
  readonly onMismatch?: "return" | "refuse";
  /** How long the run is kept after it has ended. Default 30 days. */
  readonly retentionMs?: number | "forever";
  /** How long the run may take. Then it is cancelled with the reason "deadline", and its code can clean up. Default: no limit. */
  readonly timeoutMs?: number;
  /**
   * Only for a child run: what happens to it when the run that starts it is cancelled. cancel (default): it is cancelled, too. abandon: it
   * goes on, and the code that awaits it gets a CancelledError. wait: it goes on, and the code goes on waiting for it.
   */
  readonly onCancel?: "cancel" | "abandon" | "wait";
  /**
   * The tenant that the run belongs to: runs are listed and limited by it. A child run has the scope of its parent. An id that is in use in another scope
   * is refused with RunScopeError. Default: that of the run that starts it; otherwise none.
   */
  readonly scope?: string;
  /** Names and values by which `listRuns` finds the run: `{ customer: "c-17" }`. At most 16; a text has up to 256 bytes. */
  readonly attributes?: Attributes;
  /** Ignored; accepted for code written for the Workflow DevKit. Any worker that has the workflow executes the run, with its own code. */
  readonly deploymentId?: string;
}

/**
 * A workflow by its stored name: an id such as `workflow//shop//src/orders.ts//checkout`, or the name passed to
 * `workflow(name, fn)`. The workflow need not be defined in this process: the run is pending until a worker that has it
 * claims the run.
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
  timeoutMs: true,
  onCancel: true,
  scope: true,
  attributes: true,
  deploymentId: true,
};

/** Workflow, input and options of {@link start} in one object. */
export interface StartRequest<Args extends unknown[], Result> extends StartOptions {
  readonly workflow: WorkflowFunction<Args, Result>;
  /** The only argument of the workflow. Omit it for a workflow without arguments. */
  readonly input?: Args[0];
}

const retentionMsDefault = 30 * 86_400_000;

/**
 * Starts a run. Resolves when the run is durable in the store. A later start with the same id, from any process, returns the
 * same run and does not start a second one. In a workflow it starts a child run, and in a step a run with an id derived from
 * the step. Throws InvalidInputError (invalid option or argument), WorkflowNotRegisteredError, and RunMismatchError.
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
  // A workflow without arguments can be started with the options as second argument.
  if (third === undefined && isPlainObject(second)) return await startRun(first, [], second);
  return await startRun(first, second as readonly unknown[], third ?? {});
}

async function startRun(from: WorkflowFunction | WorkflowById, args: readonly unknown[], options: StartOptions): Promise<Run> {
  const request = prepare(from, args, options);
  const execution = currentExecution();
  // Workflow code must not wait here: a replay depends on the order of requests.
  if (execution) return startChild(execution, request);
  if (options.onCancel !== undefined) throw new ContextError('the option "onCancel" of start', "a workflow, which starts a child run");
  request.check();
  if (options.store !== undefined) requireStore(options.store);
  const step = currentStep();
  // Not in a step body: a wrong option of another step must not fail this step and its run.
  if (step === undefined) checkSteps();
  const given = options.id ?? (step ? childIdOf(step.stepId, String(step.started++)) : undefined);
  const at = options.store ?? step?.execution.store;
  const encoded = encodedArgs(args, (given) => encodeLater(given, at?.valueBytesMax));
  // Await only if necessary: a caller that calls start and then, in the same turn, stops its worker has started the run.
  const input = withoutWritable("args", typeof encoded === "string" ? encoded : await encoded.catch(rethrowForArgs));
  const store = at ?? (await storeWithWorker());
  requireRuns(store);
  const create = withInputAside(
    createOf(request, { id: given ?? newRunId(), input, store, scope: step?.execution.scope }),
    store.asideBytes,
  );
  const worker = workerOf(store);
  const outcome = await worker?.start(create);
  if (outcome === "created") return new Run(create.id, store);
  if (outcome?.why === "refused") throw outcome.error;
  if (outcome?.why === "exists") return existingRun(store, create, outcome.run, request);
  // There is no worker here, it is full, or it was interrupted: create a pending run, which any worker can claim.
  const answer = await sendSafely(store, create);
  if (worker === undefined) checkForOverdue(store, create.workflow);
  return answer.kind === "exists" ? existingRun(store, create, answer.run, request) : new Run(create.id, store);
}

/** The validated arguments of a call of `start`. */
interface PreparedStart {
  readonly workflow: Renamed;
  readonly args: readonly unknown[];
  readonly options: StartOptions;
  /** Throws for an unknown option. */
  readonly check: () => void;
}

function prepare(from: WorkflowFunction | WorkflowById, args: readonly unknown[], options: StartOptions): PreparedStart {
  const workflow = typeof from === "object" && "workflowId" in from ? workflowById(from.workflowId) : definitionOf(from, "workflow");
  if (!Array.isArray(args)) throw new InvalidInputError("args", "must be an array of the workflow's arguments");
  const { id, retentionMs = retentionMsDefault, onMismatch = "return", timeoutMs, onCancel, scope, attributes } = options;
  if (scope !== undefined) checkName("scope", scope);
  if (attributes !== undefined) checkAttributes("attributes", attributes);
  if (id !== undefined) checkId(id);
  if (timeoutMs !== undefined) duration("timeoutMs", timeoutMs, 1);
  if (onCancel !== undefined) oneOf("onCancel", onCancel, ["cancel", "abandon", "wait"]);
  if (retentionMs !== "forever") duration("retentionMs", retentionMs);
  oneOf("onMismatch", onMismatch, ["return", "refuse"]);
  const names = "workflow" in options ? { ...optionNames, workflow: true as const, input: true as const } : optionNames;
  return { workflow, args, options, check: () => knownOptions("start", options, names) };
}

const namesWarned = new Set<string>();
/** The names come from callers, for example of an HTTP API. */
const namesWarnedMax = 1000;

/** Finds a workflow by its name or a former name. Warns if this process does not define it. */
function workflowById(id: unknown): Renamed {
  if (typeof id !== "string") throw new InvalidInputError("workflowId", "must be a string: the stored name of a workflow");
  checkWorkflowName("workflowId", id);
  const defined = definedWorkflows().get(presentName("workflow", id));
  if (defined === undefined && mayExecuteRuns() && !namesWarned.has(id) && namesWarned.size < namesWarnedMax) {
    namesWarned.add(id);
    process.emitWarning(
      `[onceflow] workflow "${id}" is started by its id but is not defined in this process; its runs stay pending until a worker that has the workflow claims them. ` +
        "Check the spelling, import its module, or call configure({ worker: false }) if this process only starts runs.",
    );
  }
  return defined ?? { name: id };
}

/** `input`: the arguments, encoded. */
function createOf({ workflow, args, options }: PreparedStart, { id, input, store, scope: given = "" }: NewRun): StartRun {
  const { retentionMs = retentionMsDefault, timeoutMs, scope = given, attributes = {} } = options;
  const stored = encodeAttributes(attributes);
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
    ...(timeoutMs === undefined ? {} : { timeoutMs, cleanupMs: cleanupMsDefault }),
    ...(scope === "" ? {} : { scope }),
    ...(stored === null ? {} : { attributes: stored }),
  };
}

interface NewRun {
  readonly id: string;
  readonly input: string;
  readonly store: Store;
  /** The scope of the run that starts it. */
  readonly scope?: string | undefined;
}

function encodedArgs<Text>(args: readonly unknown[], encodeArgs: (args: readonly unknown[]) => Text): Text {
  try {
    return encodeArgs(args);
  } catch (error) {
    return rethrowForArgs(error);
  }
}

function rethrowForArgs(error: unknown): never {
  throw renamed("args", error);
}

/** Hash of the canonical JSON, in which the order of members does not matter; if JSON cannot represent the arguments, of the encoded text. */
function fingerprintOf(args: readonly unknown[], input: string, { fingerprint }: StartOptions): string {
  if (fingerprint !== undefined) {
    if (typeof fingerprint !== "string" || fingerprint === "") throw new InvalidInputError("fingerprint", "must be a non-empty string");
    return sha256(fingerprint);
  }
  if (input.startsWith("devalue:")) return sha256(input);
  try {
    return sha256(args.length === 0 ? "[]" : canonicalJson(args, "input"));
  } catch (error) {
    // For example a lone surrogate, which JSON allows and canonical JSON does not.
    if (!(error instanceof InvalidInputError)) throw error;
    return sha256(input);
  }
}

function existingRun(store: Store, create: StartRun, run: RunRecord, { workflow, args, options }: PreparedStart): Run {
  if (run.scope !== (create.scope ?? "")) throw new RunScopeError(run.id);
  const hasName = isStoredAs(workflow, run.workflow);
  const hasInput = run.fingerprint === create.fingerprint || isFormerFingerprint(run.fingerprint, args, options);
  warnIfOverdue(store, [run]);
  const mismatch = !hasName || !hasInput;
  if (mismatch && options.onMismatch === "refuse") throw new RunMismatchError(run.id);
  return new Run(run.id, store, mismatch);
}

/** Whether an earlier version computed this fingerprint from the arguments, with the former names of steps and workflows among them. */
function isFormerFingerprint(print: string | null, args: readonly unknown[], options: StartOptions): boolean {
  try {
    return underFormerNames(() => fingerprintOf(args, encode(args), options)).some((each) => each === print);
  } catch {
    // Arguments that must be read before they can be encoded have no former fingerprint.
    return false;
  }
}

/** Starts a child run from workflow code. It is created together with the journal entry, and its id is derived, so that a replay refers to the same run. */
function startChild(execution: WorkflowContext, request: PreparedStart): Run | Promise<Run> {
  const { store, children, scope } = execution;
  const { id: given } = request.options;
  if (request.options.scope !== undefined && request.options.scope !== scope)
    throw new InvalidInputError("scope", "of a child run is that of its parent; leave the option out");
  const text = encodedArgs(request.args, encode);
  // Earlier versions accepted writables in arguments: a journaled start must not fail at replay.
  const input = isJournaled(execution, request.workflow) ? text : withoutWritable("args", text);
  const child = createOf(request, { id: given ?? "", input, store, scope });
  const make = (id: string): StartRun => withInputAside({ ...child, id, parent: execution.id }, store.asideBytes);
  const refuse = request.options.onMismatch === "refuse";
  const started = children.start({
    workflow: request.workflow,
    given,
    refuse,
    onCancel: policyOf(request.options),
    make,
    check: request.check,
  });
  if (started === undefined) return pendingForever();
  const { id, mismatch } = started;
  return mismatch === undefined ? new Run(id, store) : mismatch.then((differs) => new Run(id, store, differs));
}

/** The default is not journaled. */
function policyOf({ onCancel = "cancel" }: StartOptions): "abandon" | "wait" | undefined {
  return onCancel === "cancel" ? undefined : onCancel;
}

/** Whether the journal has the next start of this workflow. */
function isJournaled({ requests }: WorkflowContext, { name, former = [] }: Renamed): boolean {
  const n = requests.countSoFar(`child ${name}`);
  return [name, ...former].some((each) => requests.has(requests.idOf(`child ${each}#${n}`)));
}
