import { ConfigurationError, InvalidInputError } from "../../core/errors/errors.js";
import type { Tx } from "../../core/store/store.js";
import { capturedSite, siteOf } from "./call-site.js";
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
  const where = siteOf(capturedSite(workflow));
  const existing = definedWorkflows().get(name);
  if (existing && existing.fn !== fn) {
    // The same file loaded twice (a test runner, a hot reload) defines it anew; the newest counts.
    if (String(existing.fn) !== String(fn) && existing.where !== where)
      throw new ConfigurationError(`[onceflow] two different workflows are named "${name}": at ${existing.where} and at ${where}`, {
        code: "DUPLICATE_NAME",
      });
  }
  const call = async (...args: Args): Promise<Result> => await fn(...args);
  return registerWorkflow(call, { name, fn: fn as WorkflowDefinition["fn"], where }) as Workflow<Args, Result>;
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

/** Checks it, and makes what an execution needs to know of it. It is found from the function from now on. */
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
export function callOwnStep<Args extends unknown[], Result>(
  { name, options, fn, call, checkCall }: OwnStep<Args, Result>,
  args: Args,
): Promise<Result> {
  const resolved = resolveOptions(name, options);
  const given = () => resolved;
  const defined: StepDefinition = { name, fn: fn as StepDefinition["fn"], tx: false, options: given, resolve: given, call, checkCall };
  return requireExecution(`${name}()`).calls.call(defined, args) as Promise<Result>;
}
