import { addKind } from "../core/kinds.js";
import { StepNotRegisteredError, WorkflowNotRegisteredError } from "./errors.js";

/**
 * Steps and workflows by name, so that one that was stored in a value is found again: what is stored is the name. The
 * newest of a name counts. Names are written in code and few; should they be made at run time, the oldest are forgotten.
 */
type Kind = "step" | "workflow";
type Callable = (...args: never[]) => unknown;

const namesMax = 10_000;
const named = { step: new Map<string, Callable>(), workflow: new Map<string, Callable>() };
/** Registered, so that a function of another loaded copy of this package is known, too. */
const symbols = { step: Symbol.for("onceflow.step.name"), workflow: Symbol.for("onceflow.workflow.name") };

export function register<Of extends Callable>(kind: Kind, name: string, call: Of): Of {
  const known = named[kind];
  known.delete(name);
  known.set(name, call);
  const [oldest] = known.keys();
  if (known.size > namesMax && oldest !== undefined) known.delete(oldest);
  return Object.defineProperty(call, symbols[kind], { value: name });
}

/** The names that are known of this kind. */
export function registeredNames(kind: Kind): readonly string[] {
  return [...named[kind].keys()];
}

function nameOf(kind: Kind, value: unknown): string | undefined {
  return typeof value === "function" ? (value as unknown as Record<symbol, string | undefined>)[symbols[kind]] : undefined;
}

function addFunctionKind(kind: Kind, missing: (name: string) => Error): void {
  addKind<Callable, string>({
    name: kind,
    holds: (value): value is Callable => nameOf(kind, value) !== undefined,
    keep: (value) => nameOf(kind, value) as string,
    make(name) {
      const call = named[kind].get(name);
      if (call === undefined) throw missing(name);
      return call;
    },
  });
}

addFunctionKind("step", (name) => new StepNotRegisteredError(name));
addFunctionKind("workflow", (name) => new WorkflowNotRegisteredError(name));
