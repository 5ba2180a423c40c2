import { addKind } from "../../core/values/kinds.js";
import { AmbiguousNameError, StepNotRegisteredError, WorkflowNotRegisteredError } from "./errors.js";

/**
 * Steps and workflows by name, so that one that was stored in a value is found again: what is stored is the name. The
 * newest of a name counts. Names are written in code and few; should they be made at run time, the oldest are forgotten.
 *
 * A function may have former names: earlier versions of this package named it so, and runs are stored under them. A
 * former name that several functions share belongs to none of them. That is an error only where the name is needed.
 */
export type Kind = "step" | "workflow";
type Callable = (...args: never[]) => unknown;

const namesMax = 10_000;
const named = { step: new Map<string, Callable>(), workflow: new Map<string, Callable>() };
/** Former name → the present names of the functions that had it. */
const owners = { step: new Map<string, Set<string>>(), workflow: new Map<string, Set<string>>() };
/** Present name → its former names, newest first. */
const formerOf = { step: new Map<string, readonly string[]>(), workflow: new Map<string, readonly string[]>() };
/** Registered, so that a function of another loaded copy of this package is known, too. */
const symbols = { step: Symbol.for("onceflow.step.name"), workflow: Symbol.for("onceflow.workflow.name") };

const warned = new Set<string>();
/** Which name functions in values are written under: 0 for the newest of the former ones, -1 for the oldest. */
let writesFormer: 0 | -1 | undefined;

export function register<Of extends Callable>(kind: Kind, name: string, call: Of, former: readonly string[] = []): Of {
  const known = named[kind];
  known.delete(name);
  known.set(name, call);
  const [oldest] = known.keys();
  if (known.size > namesMax && oldest !== undefined) known.delete(oldest);
  if (former.length > 0) addFormerNames(kind, name, former);
  return Object.defineProperty(call, symbols[kind], { value: name });
}

/** The functions that are known of this kind. */
export function registered(kind: Kind): Iterable<Callable> {
  return named[kind].values();
}

function addFormerNames(kind: Kind, name: string, former: readonly string[]): void {
  const [newest = ""] = former;
  const [known] = formerOf[kind].get(name) ?? [];
  for (const each of former) addFormerName(kind, each, name);
  formerOf[kind].set(name, former);
  // One file has one path from the root of the project.
  if (known === undefined || known === newest || warned.has(`${kind} ${name}`)) return;
  warned.add(`${kind} ${name}`);
  warnOfTwo(kind, name, [known, newest]);
}

function warnOfTwo(kind: Kind, name: string, former: readonly string[]): void {
  process.emitWarning(
    `two files define the ${kind} "${name}", and the newest counts. Without the name of the package they are ${former.map((each) => `"${each}"`).join(" and ")}. ` +
      "If two packages of this project have the same name in their package.json, rename one of them",
    { type: "OnceflowWarning", code: "ONCEFLOW_DUPLICATE_ID" },
  );
}

/** The step that is stored under this name. Undefined where there is none, or several. */
export function registeredStep(name: string): unknown {
  try {
    return named.step.get(presentName("step", name));
  } catch {
    return undefined;
  }
}

/** Says that the function `name` had the name `former`, whether or not the function is registered yet. */
export function addFormerName(kind: Kind, former: string, name: string): void {
  const known = owners[kind].get(former) ?? new Set();
  owners[kind].set(former, known.add(name));
}

/** The present name of what is stored under `name`. Throws AmbiguousNameError where several functions had that name. */
export function presentName(kind: Kind, name: string): string {
  if (named[kind].has(name)) return name;
  const [owner, ...others] = owners[kind].get(name) ?? [name];
  if (others.length > 0) throw new AmbiguousNameError(kind, name, [owner as string, ...others]);
  return owner as string;
}

/**
 * What `work` answers under former names: functions in values that it encodes are written under the names that they had
 * before. One version wrote all of them, so there is one answer for each version that named functions differently.
 */
export function underFormerNames<T>(work: () => T): T[] {
  try {
    return ([0, -1] as const).map((which) => {
      writesFormer = which;
      return work();
    });
  } finally {
    writesFormer = undefined;
  }
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
    keep(value) {
      const name = nameOf(kind, value) as string;
      return (writesFormer === undefined ? undefined : formerOf[kind].get(name)?.at(writesFormer)) ?? name;
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
