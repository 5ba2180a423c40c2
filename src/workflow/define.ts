import { ConfigurationError, InvalidInputError } from "../core/errors.js";
import { placeIn } from "../core/frames.js";
import type { Reconciled } from "../core/options.js";
import { duration, oneOf } from "../core/options.js";
import { type EffectClass, effectClasses } from "../core/record.js";
import type { Tx } from "../core/store.js";
import { currentExecution, requireExecution } from "./context.js";
import { ContextError, WorkflowNotRegisteredError } from "./errors.js";
import { register } from "./registry.js";

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

export interface StepOptions<Args extends unknown[] = never[], Result = unknown> {
  /** How often a step that threw is tried **again**. Default 3. */
  readonly maxRetries?: number;
  /** Waiting before a retry: grows from `minMs` by `factor` up to `maxMs`, less up to `jitter` of itself. */
  readonly backoff?: { readonly minMs?: number; readonly maxMs?: number; readonly factor?: number; readonly jitter?: number };
  /** An attempt that takes longer is aborted and counts as failed. */
  readonly timeoutMs?: number;
  /** How long an aborted body may still take before a retry begins, or the run ends without it. Default 1 s. */
  readonly graceMs?: number;
  /** What to do when an attempt died midway. Default "idempotent". */
  readonly effect?: EffectClass;
  /** Asks the other side about an attempt in doubt; goes with `effect: "reconcile"`. */
  readonly reconcile?: (request: StepReconcileRequest<Args>) => Promise<Reconciled<Result>> | Reconciled<Result>;
  /** How long after an attempt began the other side's answer can be trusted. Default: one lease. */
  readonly reconcileAfterMs?: number;
  /** How many deaths of the process during this step are too many. Default 10. They do not count as retries. */
  readonly crashMax?: number;
  /** Names the call by its arguments instead of by its order among the calls of this step. */
  readonly key?: (...args: Args) => string;
}

export interface StepReconcileRequest<Args extends unknown[]> {
  /** What the provider was given as its idempotency key. */
  readonly stepId: string;
  readonly attempt: number;
  readonly input: Args;
}

export interface StepDefinition {
  readonly name: string;
  readonly fn: (...args: never[]) => unknown;
  /** The first argument is the open transaction, in which its result is written, too. */
  readonly tx: boolean;
  readonly options: () => ResolvedStepOptions;
}

export interface ResolvedStepOptions {
  readonly maxRetries: number;
  readonly backoff: { readonly minMs: number; readonly maxMs: number; readonly factor: number; readonly jitter: number };
  readonly timeoutMs: number | undefined;
  readonly graceMs: number;
  readonly effect: EffectClass;
  readonly reconcile: StepOptions["reconcile"];
  readonly reconcileAfterMs: number | undefined;
  readonly crashMax: number;
  readonly key: StepOptions["key"];
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

/** `fn.maxRetries` and `fn.options` may be set after the definition; they are read when the step is first called. */
function memoOptions(
  name: string,
  options: object,
  call: () => Pick<Step, "maxRetries"> & { options?: object },
): () => ResolvedStepOptions {
  let memo: ResolvedStepOptions | undefined;
  return () => {
    if (memo === undefined) {
      const { maxRetries, options: later } = call();
      memo = resolveOptions(name, { ...options, ...later, ...(maxRetries === undefined ? {} : { maxRetries }) });
    }
    return memo;
  };
}

function resolveOptions(name: string, options: object): ResolvedStepOptions {
  const { maxRetries = 3, crashMax = 10, graceMs = 1000, effect = "idempotent", ...given } = options as StepOptions;
  const field = (option: string) => `step "${name}": ${option}`;
  for (const [option, value] of Object.entries({ maxRetries, crashMax }))
    if (!Number.isInteger(value) || value < 0)
      throw new InvalidInputError(field(option), `must be a whole number from 0, not ${String(value)}`);
  const { timeoutMs, reconcileAfterMs, backoff = {}, reconcile, key } = given;
  for (const [option, value] of Object.entries({ timeoutMs, reconcileAfterMs, graceMs }))
    if (value !== undefined) duration(field(option), value);
  const { minMs = 500, maxMs = 60_000, factor = 2, jitter = 0.5 } = backoff;
  duration(field("backoff.minMs"), minMs);
  duration(field("backoff.maxMs"), maxMs);
  if (!(factor >= 1)) throw new InvalidInputError(field("backoff.factor"), "must be 1 or more");
  if (!(jitter >= 0 && jitter <= 1)) throw new InvalidInputError(field("backoff.jitter"), "must be from 0 to 1");
  oneOf(field("effect"), effect, effectClasses);
  if ((effect === "reconcile") !== (typeof reconcile === "function"))
    throw new InvalidInputError(field("reconcile"), 'must be a function when, and only when, effect is "reconcile"');
  if (key !== undefined && typeof key !== "function")
    throw new InvalidInputError(field("key"), "must be a function of the step's arguments");
  return { maxRetries, backoff: { minMs, maxMs, factor, jitter }, timeoutMs, graceMs, effect, reconcile, reconcileAfterMs, crashMax, key };
}

const namePattern = /^[^\p{Cc}#]{1,512}$/u;

function checkDefinition(what: string, name: unknown, fn: unknown): void {
  if (typeof name !== "string" || !namePattern.test(name))
    throw new InvalidInputError(`${what}: name`, 'must be 1 to 512 characters, without "#" and control characters');
  if (typeof fn !== "function") throw new InvalidInputError(`${what} "${name}"`, "needs a function");
}

/** Where this folder is, as imports see it and as stack traces do: with source maps these are two places. */
const ours = [new URL(".", import.meta.url).href, placeIn(new Error("here").stack?.split("\n")[1]).replace(/[^/\\]*$/, "")];

/** The first line of the stack that is not ours: file, line and column in the user's code. */
export function callSite(): string {
  const lines = (new Error("call site").stack ?? "").split("\n").slice(1);
  const isOurs = (text: string) => ours.some((folder) => text.includes(folder));
  const line = lines.find((text) => !isOurs(text) && !text.includes("node:internal") && !text.includes("node:async_hooks"));
  return line === undefined ? "an unknown place" : placeIn(line).replace(/^file:\/\//, "");
}
