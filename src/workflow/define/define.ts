import { ConfigurationError, InvalidInputError } from "../../core/errors/errors.js";
import type { Tx } from "../../core/store/store.js";
import { callSite } from "./call-site.js";
import { currentExecution, currentRun, requireExecution } from "./context.js";
import { ContextError, WorkflowNotRegisteredError } from "./errors.js";
import { presentName, register } from "./registry.js";
import { checkOptionNames, memoOptions, type ResolvedStepOptions, resolveOptions, type StepOptions } from "./step-options.js";

const definition = Symbol.for("onceflow.definition");
const stepMark = Symbol.for("onceflow.step");

export interface WorkflowDefinition {
  readonly name: string;
  /** Names of earlier versions: runs may be stored under them. */
  readonly former?: readonly string[];
  readonly fn: (...args: never[]) => unknown;
  /** Where it was defined, for messages. */
  readonly where: string;
}

/** A workflow: called inside another one it is just that function; as a run of its own it is started with `start`. */
export interface Workflow<Args extends unknown[] = never[], Result = unknown> {
  (...args: Args): Promise<Result>;
  /** Its stored name. */
  readonly workflowId: string;
  readonly [definition]: WorkflowDefinition;
}

/** What can be started: one that says "use workflow" is typed as the function that it is. */
export type WorkflowFunction<Args extends unknown[] = never[], Result = unknown> = (...args: Args) => Promise<Result>;

export interface StepDefinition {
  readonly name: string;
  /** Names of earlier versions: calls may be journaled under them. */
  readonly former?: readonly string[];
  readonly fn: (...args: never[]) => unknown;
  /** The first argument is the open transaction, in which its result is written, too. */
  readonly tx: boolean;
  readonly options: () => ResolvedStepOptions;
  /** The same as they are assigned now: not kept, so that what is assigned later counts. */
  readonly resolve: () => ResolvedStepOptions;
  /** It was defined by code of a run, so that nothing but its first call can check its options. */
  readonly nested?: boolean;
  /** Throws when the call itself has wrong options. Asked only for a call that the journal does not have. */
  readonly checkCall?: () => void;
  /** The function that the code calls: what called that one is the place of the call. */
  readonly call: (...args: never[]) => unknown;
}

/** In a workflow a call is journaled, retried and replayed; anywhere else it is just that function. */
export interface Step<Args extends unknown[] = never[], Result = unknown> {
  (...args: Args): Promise<Result>;
  maxRetries?: number;
  options?: StepOptions<Args, Result>;
}

const workflows = new Map<string, WorkflowDefinition>();

/**
 * Makes a workflow of an async function. The name is what is stored: keep it when you move or rename the function.
 *
 * @example
 * const order = workflow("order", async (id: string) => { await charge(id); await ship(id); });
 */
export function workflow<Args extends unknown[], Result>(
  name: string,
  fn: (...args: Args) => Promise<Result> | Result,
  ...more: never[]
): Workflow<Args, Result> {
  checkDefinition("workflow", name, fn);
  if (more.length > 0) throw new InvalidInputError(`workflow "${name}"`, "has no options; those of a run are options of start()");
  const existing = workflows.get(name);
  if (existing && existing.fn !== fn) {
    // The same file loaded twice (a test runner, a hot reload) defines it anew; the newest counts.
    if (String(existing.fn) !== String(fn) && existing.where !== callSite())
      throw new ConfigurationError(`[onceflow] two different workflows are named "${name}": at ${existing.where} and at ${callSite()}`, {
        code: "DUPLICATE_NAME",
      });
  }
  const call = async (...args: Args): Promise<Result> => await fn(...args);
  return registerWorkflow(call, { name, fn: fn as WorkflowDefinition["fn"], where: callSite() }) as Workflow<Args, Result>;
}

/** From now on this function can be started, and runs of this name executed; the newest counts. */
export function registerWorkflow<Fn extends (...args: never[]) => unknown>(call: Fn, defined: WorkflowDefinition): Fn {
  checkDefinition("workflow", defined.name, defined.fn);
  workflows.set(defined.name, defined);
  // For code that starts a workflow by its id: start({ workflowId }).
  Object.defineProperty(call, "workflowId", { value: defined.name, configurable: true });
  const marked = Object.defineProperty(call, definition, { value: defined, configurable: true });
  return register("workflow", defined.name, marked, defined.former);
}

/** The definition of a workflow that was handed to us as `field`. */
export function definitionOf(from: unknown, field: string): WorkflowDefinition {
  if (typeof from !== "function")
    throw new InvalidInputError(field, 'must be a workflow: a function with "use workflow", or made by workflow(name, fn)');
  const defined = (from as Partial<Workflow>)[definition];
  if (defined === undefined) throw new WorkflowNotRegisteredError(from.name || "an anonymous function");
  return defined;
}

/** Everything that was defined in this process so far. */
export function definedWorkflows(): ReadonlyMap<string, WorkflowDefinition> {
  return workflows;
}

/**
 * The one of these workflows that runs of this name belong to, with the name that is stored: a run keeps it, and its
 * code sees the same name at every replay. Throws AmbiguousNameError where several workflows had the name.
 */
export function workflowNamed(name: string, among: ReadonlyMap<string, WorkflowDefinition>): WorkflowDefinition | undefined {
  const defined = among.get(name) ?? among.get(presentName("workflow", name));
  return defined === undefined || defined.name === name ? defined : { ...defined, name };
}

function defineStep<Args extends unknown[], Result>(
  name: string,
  fn: (...args: Args) => Promise<Result> | Result,
  options: StepOptions<Args, Result> = {},
): Step<Args, Result> {
  const call = (...args: Args): Promise<Result> => {
    const execution = currentExecution();
    return (execution ? execution.calls.call(defined, args) : Promise.resolve().then(() => fn(...args))) as Promise<Result>;
  };
  const defined = stepDefinition({ what: "step", name, fn, call, options });
  return call;
}

function defineTxStep<Args extends unknown[], Result, Handle extends Tx = Tx>(
  name: string,
  fn: (tx: Handle, ...args: Args) => Promise<Result> | Result,
  options: Omit<StepOptions<Args, Result>, "effect" | "reconcile" | "reconcileAfterMs"> = {},
): Step<Args, Result> {
  const call = (...args: Args): Promise<Result> => {
    const execution = currentExecution();
    if (execution === undefined) throw new ContextError(`the transactional step "${name}"`, "a workflow");
    return execution.calls.call(defined, args) as Promise<Result>;
  };
  const defined = stepDefinition({ what: "step.tx", name, fn, call, options });
  return call;
}

interface StepToDefine {
  readonly what: "step" | "step.tx";
  readonly name: string;
  readonly former?: readonly string[];
  /** The body. */
  readonly fn: unknown;
  /** What the user has in hand: `maxRetries` and `options` are set on it. */
  readonly call: (...args: never[]) => unknown;
  readonly options?: object;
}

/** Checks it, and makes what an execution needs to know of it. Whoever has the function in hand finds it there. */
export function stepDefinition({ what, name, former = [], fn, call, options = {} }: StepToDefine): StepDefinition {
  checkDefinition(what, name, fn);
  checkOptionNames(name, options);
  resolveOptions(name, options);
  const resolve = () => {
    const { maxRetries, options: later } = call as Pick<Step, "maxRetries"> & { options?: object };
    return resolveOptions(name, { ...options, ...later, ...(maxRetries === undefined ? {} : { maxRetries }) });
  };
  const tx = what === "step.tx";
  const nested = currentRun() !== undefined;
  const defined: StepDefinition = {
    name,
    former,
    fn: fn as StepDefinition["fn"],
    tx,
    options: memoOptions(resolve),
    resolve,
    call,
    nested,
  };
  register("step", name, Object.defineProperty(call, stepMark, { value: defined, configurable: true }), former);
  return defined;
}

export function stepDefinitionOf(from: unknown): StepDefinition | undefined {
  return typeof from === "function" ? (from as { readonly [stepMark]?: StepDefinition })[stepMark] : undefined;
}

/**
 * Sets the options of a step, as `fn.options = …` does; here the compiler checks them, and so does this call.
 *
 * @example
 * async function charge(order: Order) { "use step"; … }
 * stepOptions(charge, { maxRetries: 5, effect: "keyed" });
 */
export function stepOptions<Args extends unknown[], Result>(
  of: (...args: Args) => Promise<Result>,
  options: StepOptions<Args, Result>,
): (...args: Args) => Promise<Result> {
  const defined = stepDefinitionOf(of);
  if (defined === undefined)
    throw new InvalidInputError(
      "stepOptions",
      'needs a step: a function with "use step" in a file that is transformed, or made by step(name, fn)',
    );
  if (typeof options !== "object" || options === null) throw new InvalidInputError("stepOptions", "needs an object of options");
  checkOptionNames(defined.name, options);
  const call = of as { options?: StepOptions<Args, Result> };
  const before = call.options;
  call.options = options;
  try {
    defined.resolve();
  } catch (error) {
    if (before === undefined) delete call.options;
    else call.options = before;
    throw error;
  }
  return of;
}

/**
 * Makes a step of an async function: in a workflow its result is journaled, a failure retried, a replay answered from
 * the journal. `step.tx` runs it in a transaction of the store's own database, together with its result.
 *
 * @example
 * const charge = step("charge", async (order: Order) => provider.charge(order, { idempotencyKey: getStepMetadata().stepId }));
 */
export const step = Object.assign(defineStep, { tx: defineTxStep });

interface OwnStep<Args extends unknown[], Result> {
  readonly name: string;
  readonly options: StepOptions<Args, Result>;
  readonly fn: (...args: Args) => Promise<Result>;
  /** The function that the code has called. */
  readonly call: (...args: never[]) => unknown;
  readonly checkCall: () => void;
}

/** A step of ours, whose options may differ from call to call. Only in a workflow. */
export function callStep<Args extends unknown[], Result>(
  { name, options, fn, call, checkCall }: OwnStep<Args, Result>,
  args: Args,
): Promise<Result> {
  const resolved = resolveOptions(name, options);
  const given = () => resolved;
  const defined: StepDefinition = { name, fn: fn as StepDefinition["fn"], tx: false, options: given, resolve: given, call, checkCall };
  return requireExecution(`${name}()`).calls.call(defined, args) as Promise<Result>;
}

const namePattern = /^[^\p{Cc}#]{1,512}$/u;

export function checkWorkflowName(field: string, name: unknown): void {
  if (typeof name !== "string" || !namePattern.test(name) || !name.isWellFormed())
    throw new InvalidInputError(field, 'must be 1 to 512 characters, without "#", control characters and lone surrogates');
}

function checkDefinition(what: string, name: unknown, fn: unknown): void {
  checkWorkflowName(`${what}: name`, name);
  if (typeof fn !== "function") throw new InvalidInputError(`${what} "${name}"`, "needs a function");
}
