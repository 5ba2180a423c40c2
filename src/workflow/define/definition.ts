import { InvalidInputError } from "../../core/errors/errors.js";
import { WorkflowNotRegisteredError } from "./errors.js";
import { presentName, register } from "./registry.js";
import type { ResolvedStepOptions, StepOptions } from "./step-options.js";

const definition = Symbol.for("onceflow.definition");
const stepMark = Symbol.for("onceflow.step");

export interface WorkflowDefinition {
  readonly name: string;
  /** Names that earlier versions of this package gave it: runs may be stored under them. */
  readonly former?: readonly string[];
  readonly fn: (...args: never[]) => unknown;
  /** File, line and column of the definition, for messages. */
  readonly where: string;
}

/** A workflow made by `workflow(name, fn)`. `start` starts it as a run; a direct call runs it as a plain function. */
export interface Workflow<Args extends unknown[] = never[], Result = unknown> {
  (...args: Args): Promise<Result>;
  /** The name under which runs are stored. */
  readonly workflowId: string;
  readonly [definition]: WorkflowDefinition;
}

/** A function that `start` accepts. A function with "use workflow" keeps its own type, so any async function matches. */
export type WorkflowFunction<Args extends unknown[] = never[], Result = unknown> = (...args: Args) => Promise<Result>;

export interface StepDefinition {
  readonly name: string;
  /** Names that earlier versions of this package gave it: calls may be journaled under them. */
  readonly former?: readonly string[];
  readonly fn: (...args: never[]) => unknown;
  /** A step made by `step.tx`: its first argument is the open transaction, which also writes the result. */
  readonly tx: boolean;
  readonly options: () => ResolvedStepOptions;
  /** Resolves the options as they are assigned now, without caching them. */
  readonly resolve: () => ResolvedStepOptions;
  /** The step was defined by code of a run, so its options can only be checked at its first call. */
  readonly nested?: boolean;
  /** Throws if the call itself has invalid options. Called only for calls that are not journaled yet. */
  readonly checkCall?: () => void;
  /** The function that user code calls. Its caller is the call site in messages. */
  readonly call: (...args: never[]) => unknown;
}

/** A step made by `step(name, fn)`. In a workflow its calls are journaled, retried and replayed; elsewhere it is a plain function. */
export interface Step<Args extends unknown[] = never[], Result = unknown> {
  (...args: Args): Promise<Result>;
  /** The same as `options.maxRetries`. */
  maxRetries?: number;
  /** Options of the step. Read at its first call; `stepOptions` sets and checks them. */
  options?: StepOptions<Args, Result>;
}

const workflows = new Map<string, WorkflowDefinition>();

/** Registers a workflow, so that it can be started and its runs executed. Replaces an earlier definition of the same name. */
export function registerWorkflow<Fn extends (...args: never[]) => unknown>(call: Fn, defined: WorkflowDefinition): Fn {
  checkDefinition("workflow", defined.name, defined.fn);
  workflows.set(defined.name, defined);
  // For code that starts a workflow by its id: start({ workflowId }).
  Object.defineProperty(call, "workflowId", { value: defined.name, configurable: true });
  const marked = Object.defineProperty(call, definition, { value: defined, configurable: true });
  return register("workflow", defined.name, marked, defined.former);
}

/** The definition of a workflow function that a caller passed as `field`. */
export function definitionOf(from: unknown, field: string): WorkflowDefinition {
  if (typeof from !== "function")
    throw new InvalidInputError(field, 'must be a workflow: a function with "use workflow", or one made by workflow(name, fn)');
  const defined = (from as Partial<Workflow>)[definition];
  if (defined === undefined) throw new WorkflowNotRegisteredError(from.name || "an anonymous function");
  return defined;
}

/** All workflows defined in this process so far. */
export function definedWorkflows(): ReadonlyMap<string, WorkflowDefinition> {
  return workflows;
}

/**
 * Finds the workflow that executes runs stored under this name, which may be a former name. The returned definition has the
 * stored name, so that the code of a run sees the same name at every replay. Throws AmbiguousNameError if several workflows
 * had the name.
 */
export function workflowNamed(name: string, among: ReadonlyMap<string, WorkflowDefinition>): WorkflowDefinition | undefined {
  const defined = among.get(name) ?? among.get(presentName("workflow", name));
  return defined === undefined || defined.name === name ? defined : { ...defined, name };
}

/** Registers a step: `stepDefinitionOf(call)` returns its definition. */
export function registerStep(call: StepDefinition["call"], defined: StepDefinition): void {
  register("step", defined.name, Object.defineProperty(call, stepMark, { value: defined, configurable: true }), defined.former);
}

export function stepDefinitionOf(from: unknown): StepDefinition | undefined {
  return typeof from === "function" ? (from as { readonly [stepMark]?: StepDefinition })[stepMark] : undefined;
}

const namePattern = /^[^\p{Cc}#]{1,512}$/u;

export function checkWorkflowName(field: string, name: unknown): void {
  if (typeof name !== "string" || !namePattern.test(name) || !name.isWellFormed())
    throw new InvalidInputError(field, 'must be 1 to 512 characters, without "#", control characters and lone surrogates');
}

export function checkDefinition(what: string, name: unknown, fn: unknown): void {
  checkWorkflowName(`${what}: name`, name);
  if (typeof fn !== "function") throw new InvalidInputError(`${what} "${name}"`, "needs a function");
}
