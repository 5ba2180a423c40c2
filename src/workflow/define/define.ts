import { ConfigurationError, InvalidInputError } from "../../core/errors/errors.js";
import type { Tx } from "../../core/store/store.js";
import { callSite } from "./call-site.js";
import { currentExecution, currentRun, requireExecution } from "./context.js";
import {
  checkDefinition,
  definedWorkflows,
  registerStep,
  registerWorkflow,
  type Step,
  type StepDefinition,
  stepDefinitionOf,
  type Workflow,
  type WorkflowDefinition,
} from "./definition.js";
import { ContextError } from "./errors.js";
import { checkOptionNames, memoOptions, resolveOptions, type StepOptions } from "./step-options.js";

/**
 * Makes a workflow of an async function. Runs are stored under the name: keep it when you move or rename the function.
 * Throws ConfigurationError if another workflow has the name, and InvalidInputError if an argument is invalid.
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
  if (more.length > 0) throw new InvalidInputError(`workflow "${name}"`, "takes no options; pass the options of a run to start()");
  const existing = definedWorkflows().get(name);
  if (existing && existing.fn !== fn) {
    // A file that is loaded again (by a test runner or hot reload) replaces the definition.
    if (String(existing.fn) !== String(fn) && existing.where !== callSite())
      throw new ConfigurationError(`[onceflow] two different workflows are named "${name}": at ${existing.where} and at ${callSite()}`, {
        code: "DUPLICATE_NAME",
      });
  }
  const call = async (...args: Args): Promise<Result> => await fn(...args);
  return registerWorkflow(call, { name, fn: fn as WorkflowDefinition["fn"], where: callSite() }) as Workflow<Args, Result>;
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
  /** The function that user code calls; `maxRetries` and `options` may be assigned to it. */
  readonly call: (...args: never[]) => unknown;
  readonly options?: object;
}

/** Checks and registers a step, and returns its definition. `stepDefinitionOf(call)` finds it from now on. */
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
  registerStep(call, defined);
  return defined;
}

/**
 * Sets the options of a step. The same as `fn.options = …`, but checked by the compiler and immediately at run time. Throws
 * InvalidInputError if `of` is not a step or an option is invalid. Returns the step.
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
      'needs a step: a function with "use step" in a transformed file, or one made by step(name, fn)',
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
 * Makes a step of an async function. In a workflow a failed call is retried, its result is journaled, and a replay gets the
 * result from the journal. Elsewhere the step is a plain function. `step.tx` runs the function in a transaction of the
 * store's database, which also commits the result; its first argument is the transaction. Throws InvalidInputError if the
 * name or an option is invalid.
 *
 * @example
 * const charge = step("charge", async (order: Order) => provider.charge(order, { idempotencyKey: getStepMetadata().stepId }));
 */
export const step = Object.assign(defineStep, { tx: defineTxStep });

interface OwnStep<Args extends unknown[], Result> {
  readonly name: string;
  readonly options: StepOptions<Args, Result>;
  readonly fn: (...args: Args) => Promise<Result>;
  /** The function that workflow code called. */
  readonly call: (...args: never[]) => unknown;
  readonly checkCall: () => void;
}

/** Calls a step of this package, such as `fetch`, whose options may differ from call to call. Only in a workflow. */
export function callOwnStep<Args extends unknown[], Result>(
  { name, options, fn, call, checkCall }: OwnStep<Args, Result>,
  args: Args,
): Promise<Result> {
  const resolved = resolveOptions(name, options);
  const given = () => resolved;
  const defined: StepDefinition = { name, fn: fn as StepDefinition["fn"], tx: false, options: given, resolve: given, call, checkCall };
  return requireExecution(`${name}()`).calls.call(defined, args) as Promise<Result>;
}
