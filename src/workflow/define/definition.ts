import { InvalidInputError } from "../../core/errors/errors.js";
import { WorkflowNotRegisteredError } from "./errors.js";
import { presentName, register } from "./registry.js";
import type { ResolvedStepOptions, StepOptions } from "./step-options.js";

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

/** From now on the definition is found from the function. */
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
