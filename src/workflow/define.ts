import { ConfigurationError, InvalidInputError } from "../core/errors.js";
import type { Tx } from "../core/store.js";
import { callSite } from "./call-site.js";
import { currentExecution, requireExecution } from "./context.js";
import { ContextError, WorkflowNotRegisteredError } from "./errors.js";
import { register } from "./registry.js";
import { memoOptions, type ResolvedStepOptions, resolveOptions, type StepOptions } from "./step-options.js";

const definition = Symbol.for("onceflow.definition");
const stepMark = Symbol.for("onceflow.step");

export interface WorkflowDefinition {
  readonly name: string;
  readonly fn: (...args: never[]) => unknown;
  /** Where it was defined, for messages. */
  readonly where: string;
}

/** A workflow: called inside another one it is just that function; as a run of its own it is started with `start`. */
export interface Workflow<Args extends unknown[] = never[], Result = unknown> {
  (...args: Args): Promise<Result>;
  readonly [definition]: WorkflowDefinition;
}

/** What can be started: one that says "use workflow" is typed as the function that it is. */
export type WorkflowFunction<Args extends unknown[] = never[], Result = unknown> = (...args: Args) => Promise<Result>;

export interface StepDefinition {
  readonly name: string;
  readonly fn: (...args: never[]) => unknown;
  /** The first argument is the open transaction, in which its result is written, too. */
  readonly tx: boolean;
  readonly options: () => ResolvedStepOptions;
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
): Workflow<Args, Result> {
  checkDefinition("workflow", name, fn);
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
  return register("workflow", defined.name, Object.defineProperty(call, definition, { value: defined, configurable: true }));
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
  /** The body. */
  readonly fn: unknown;
  /** What the user has in hand: `maxRetries` and `options` are set on it. */
  readonly call: (...args: never[]) => unknown;
  readonly options?: object;
}

/** Checks it, and makes what an execution needs to know of it. Whoever has the function in hand finds it there. */
export function stepDefinition({ what, name, fn, call, options = {} }: StepToDefine): StepDefinition {
  checkDefinition(what, name, fn);
  resolveOptions(name, options);
  const resolved = memoOptions(name, options, () => call as Pick<Step, "maxRetries"> & { options?: object });
  const defined: StepDefinition = { name, fn: fn as StepDefinition["fn"], tx: what === "step.tx", options: resolved };
  register("step", name, Object.defineProperty(call, stepMark, { value: defined, configurable: true }));
  return defined;
}

export function stepDefinitionOf(from: unknown): StepDefinition | undefined {
  return typeof from === "function" ? (from as { readonly [stepMark]?: StepDefinition })[stepMark] : undefined;
}

/**
 * Makes a step of an async function: in a workflow its result is journaled, a failure retried, a replay answered from
 * the journal. `step.tx` runs it in a transaction of the store's own database, together with its result.
 *
 * @example
 * const charge = step("charge", async (order: Order) => provider.charge(order, { idempotencyKey: getStepMetadata().stepId }));
 */
export const step = Object.assign(defineStep, { tx: defineTxStep });

/** A step of ours, whose options may differ from call to call. Only in a workflow. */
export function callStep<Args extends unknown[], Result>(
  name: string,
  options: StepOptions<Args, Result>,
  fn: (...args: Args) => Promise<Result>,
  args: Args,
): Promise<Result> {
  const resolved = resolveOptions(name, options);
  const defined: StepDefinition = { name, fn: fn as StepDefinition["fn"], tx: false, options: () => resolved };
  return requireExecution(`${name}()`).calls.call(defined, args) as Promise<Result>;
}

const namePattern = /^[^\p{Cc}#]{1,512}$/u;

function checkDefinition(what: string, name: unknown, fn: unknown): void {
  if (typeof name !== "string" || !namePattern.test(name))
    throw new InvalidInputError(`${what}: name`, 'must be 1 to 512 characters, without "#" and control characters');
  if (typeof fn !== "function") throw new InvalidInputError(`${what} "${name}"`, "needs a function");
}
