import { addKind } from "../../core/values/kinds.js";
import { AmbiguousNameError, StepNotRegisteredError, WorkflowNotRegisteredError } from "./errors.js";

/**
 * Steps and workflows by name. A function inside a stored value is stored as its name and looked up here. The newest
 * function with a name replaces older ones. Names are usually few, written in code; if a program generates names, the oldest
 * entries are evicted.
 *
 * A function may have former names, which earlier versions of this package gave it and under which runs are stored. A
 * former name that several functions share is ambiguous, which is an error only if the name is looked up.
 */
export type Kind = "step" | "workflow";
type Callable = (...args: never[]) => unknown;

const namesMax = 10_000;
const named = { step: new Map<string, Callable>(), workflow: new Map<string, Callable>() };
/** Former name → the current names of the functions that had it. */
const owners = { step: new Map<string, Set<string>>(), workflow: new Map<string, Set<string>>() };
/** Current name → former names, newest first. */
const formerOf = { step: new Map<string, readonly string[]>(), workflow: new Map<string, readonly string[]>() };
/** Global symbols, so that functions registered by another loaded copy of this package are recognised. */
const symbols = { step: Symbol.for("onceflow.step.name"), workflow: Symbol.for("onceflow.workflow.name") };

const warned = new Set<string>();
/** If set, functions in values are encoded under a former name: 0 for the newest, -1 for the oldest. */
let formerNameIndex: 0 | -1 | undefined;

export function register<Of extends Callable>(kind: Kind, name: string, call: Of, former: readonly string[] = []): Of {
  const known = named[kind];
  known.delete(name);
  known.set(name, call);
  const [oldest] = known.keys();
  if (known.size > namesMax && oldest !== undefined) known.delete(oldest);
  if (former.length > 0) addFormerNames(kind, name, former);
  return Object.defineProperty(call, symbols[kind], { value: name });
}

/** All registered functions of this kind. */
export function registered(kind: Kind): Iterable<Callable> {
  return named[kind].values();
}

function addFormerNames(kind: Kind, name: string, former: readonly string[]): void {
  const [newest = ""] = former;
  const [known] = formerOf[kind].get(name) ?? [];
  for (const each of former) addFormerName(kind, each, name);
  formerOf[kind].set(name, former);
  // Two different paths for the same id mean two files; a file that is loaded again has the same path.
  if (known === undefined || known === newest || warned.has(`${kind} ${name}`)) return;
  warned.add(`${kind} ${name}`);
  warnOfTwo(kind, name, [known, newest]);
}

function warnOfTwo(kind: Kind, name: string, former: readonly string[]): void {
  process.emitWarning(
    `two files define the ${kind} "${name}", and the last one loaded is used. Their ids without the package name are ${former.map((each) => `"${each}"`).join(" and ")}. ` +
      "If two packages of this project have the same name in their package.json, rename one of them",
    { type: "OnceflowWarning", code: "ONCEFLOW_DUPLICATE_ID" },
  );
}

/** The step that is stored under this name. Undefined if there is none, or the name is ambiguous. */
export function registeredStep(name: string): unknown {
  try {
    return named.step.get(presentName("step", name));
  } catch {
    return undefined;
  }
}

/** Records that the function `name` had the name `former`. The function need not be registered yet. */
export function addFormerName(kind: Kind, former: string, name: string): void {
  const known = owners[kind].get(former) ?? new Set();
  owners[kind].set(former, known.add(name));
}

/** The current name of the function that is stored under `name`. Throws AmbiguousNameError if several functions had that name. */
export function presentName(kind: Kind, name: string): string {
  if (named[kind].has(name)) return name;
  const [owner, ...others] = owners[kind].get(name) ?? [name];
  if (others.length > 0) throw new AmbiguousNameError(kind, name, [owner as string, ...others]);
  return owner as string;
}

/**
 * Runs `work` once for each earlier naming scheme and returns the results. While it runs, functions in values are encoded
 * under the names that they had in that scheme.
 */
export function underFormerNames<T>(work: () => T): T[] {
  try {
    return ([0, -1] as const).map((index) => {
      formerNameIndex = index;
      return work();
    });
  } finally {
    formerNameIndex = undefined;
  }
}

/** The names of all registered functions of this kind. */
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
    keep(value) {
      const name = nameOf(kind, value) as string;
      return (formerNameIndex === undefined ? undefined : formerOf[kind].get(name)?.at(formerNameIndex)) ?? name;
    },
    make(name) {
      const call = named[kind].get(presentName(kind, name));
      if (call === undefined) throw missing(name);
      return call;
    },
  });
}

addFunctionKind("step", (name) => new StepNotRegisteredError(name));
addFunctionKind("workflow", (name) => new WorkflowNotRegisteredError(name));
