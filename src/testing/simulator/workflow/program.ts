import type { Random } from "../random.js";

/** One step for each effect class and for each option that changes when a body may start or how its key is made. */
const stepKinds = [
  "plain",
  "keyed",
  "reconcile",
  "atMostOnce",
  "timed",
  "named",
  "brittle",
  "ledgered",
  "spawning",
  "transactional",
  "streaming",
] as const;
export type StepKind = (typeof stepKinds)[number];

/** A workflow as data: the input of a run, which the simulated workflow interprets. */
export type Program =
  | { readonly do: "step"; readonly kind: StepKind; readonly name: string; readonly draws: boolean }
  | { readonly do: "sleep"; readonly ms: number }
  /** Reads `now()`, `random()` and `uuid()`. */
  | { readonly do: "draw" }
  /** Writes a chunk to the stream that streaming steps also write to. */
  | { readonly do: "say" }
  | { readonly do: "hook"; readonly token: string; readonly payloads: number; readonly as: HookForm }
  | { readonly do: "child"; readonly id: string | null; readonly program: Program; readonly awaited: boolean }
  | { readonly do: "sequence" | "all" | "race" | "any" | "settled"; readonly of: readonly Program[] }
  /** Runs `otherwise` if `program` throws. */
  | { readonly do: "try"; readonly program: Program; readonly otherwise: Program }
  | { readonly do: "throw" }
  /** Throws until the run was retried so often: then its code is corrected. Only where no other code catches the error. */
  | { readonly do: "bug"; readonly until: number }
  /** Runs `by` if `program` throws (a compensation), or always, and throws on. */
  | { readonly do: "undo" | "finally"; readonly program: Program; readonly by: Program }
  /** Starts the program and does not wait for it. */
  | { readonly do: "leave"; readonly program: Program };

/** How the code uses a hook: awaits each payload; iterates; iterates and runs a step for each payload; or checks for a conflict first and disposes of the hook at the end. */
type HookForm = "awaited" | "iterated" | "served" | "asked";

const depthMax = 3;

/** A token that several hooks of a world compete for. */
const sharedToken = "shared";
/** The id of a child run that several runs of a world may start. */
export const namedChild = "named child";

interface ProgramOptions {
  /** The program has what operators act on: code that throws, and compensations. */
  readonly fails: boolean;
}

export function programOf(random: Random, run: string, { fails }: ProgramOptions = { fails: false }): Program {
  let hooks = 0;
  let children = 0;
  const sequence = (depth: number): Program => ({ do: "sequence", of: several(depth + 1, random.between(1, 3)) });
  const several = (depth: number, n: number) => Array.from({ length: n }, () => one(depth));
  const leaf = (): Program => {
    switch (random.between(0, 10)) {
      case 0:
        return { do: "sleep", ms: random.pick([0, 10, 300, 900, 2500]) };
      case 1:
        return { do: "draw" };
      case 10:
        return { do: "say" };
      case 2: {
        const token = random.chance(0.1) ? sharedToken : `${run} hook ${hooks++}`;
        return { do: "hook", token, payloads: random.between(1, 3), as: random.pick(["awaited", "iterated", "served", "asked"]) };
      }
      default:
        return { do: "step", kind: random.pick(stepKinds), name: random.pick(["a", "b"]), draws: random.chance(0.3) };
    }
  };
  const one = (depth: number): Program => {
    if (fails && random.chance(0.15)) return failing(depth);
    if (depth >= depthMax || random.chance(0.5)) return leaf();
    switch (random.between(0, 8)) {
      case 0:
      case 1:
        return { do: "all", of: several(depth + 1, random.between(2, 3)) };
      case 2:
      case 3:
        return { do: "race", of: several(depth + 1, random.between(2, 3)) };
      case 4:
        return { do: random.pick(["any", "settled"]), of: several(depth + 1, random.between(2, 3)) };
      case 5: {
        // Another run may already have started the child with this id.
        const id = random.chance(0.3) ? random.pick([namedChild, "r0"]) : null;
        children += 1;
        // Not awaited: r0 may be the parent itself, and waiting for its own end would never finish.
        const awaited = random.chance(0.8) && id !== "r0";
        return { do: "child", id, program: programInside(random, `${run} child ${children}`), awaited };
      }
      case 6:
        return { do: "try", program: sequence(depth), otherwise: leaf() };
      case 7:
        return { do: "leave", program: sequence(depth) };
      default:
        return sequence(depth);
    }
  };
  const failing = (depth: number): Program => {
    if (depth >= depthMax || random.chance(0.1)) return { do: "throw" };
    return { do: random.pick(["undo", "undo", "finally"]), program: sequence(depth), by: leaf() };
  };
  const main = several(0, random.between(1, 4));
  if (fails && random.chance(0.2)) main.splice(random.between(0, main.length), 0, { do: "bug", until: random.between(1, 2) });
  return { do: "sequence", of: main };
}

/** A small program without children, for a child run. */
function programInside(random: Random, name: string): Program {
  const leaf = (i: number): Program => {
    if (random.chance(0.2)) return { do: "hook", token: `${name} hook ${i}`, payloads: 1, as: "awaited" };
    if (random.chance(0.2)) return { do: "sleep", ms: random.pick([0, 100, 1500]) };
    return { do: "step", kind: random.pick(["plain", "keyed", "brittle"]), name: "c", draws: false };
  };
  return { do: "sequence", of: Array.from({ length: random.between(1, 2) }, (_, i) => leaf(i)) };
}

/** Every hook token in a program, with the number of payloads to send to it. */
export function tokensIn(program: Program): [token: string, payloads: number][] {
  switch (program.do) {
    case "hook":
      return [[program.token, program.token === sharedToken ? 1000 : program.payloads]];
    case "try":
      return [...tokensIn(program.program), ...tokensIn(program.otherwise)];
    case "undo":
    case "finally":
      return [...tokensIn(program.program), ...tokensIn(program.by)];
    case "child":
    case "leave":
      return tokensIn(program.program);
    case "sequence":
    case "all":
    case "race":
    case "any":
    case "settled":
      return program.of.flatMap(tokensIn);
    default:
      return [];
  }
}

export interface StepOptionsPlan {
  readonly backoff: { readonly minMs: number; readonly maxMs: number };
  readonly maxRetries: number;
  readonly crashMax: number;
  readonly timeoutMs: number;
  readonly graceMs: number;
  readonly reconcileAfterMs: number;
}

export function stepOptionsOf(random: Random, leaseMs: number): StepOptionsPlan {
  return {
    backoff: { minMs: random.pick([0, 5, leaseMs]), maxMs: random.pick([leaseMs, 2000]) },
    maxRetries: random.between(0, 3),
    crashMax: random.pick([2, 10, 10, 50]),
    timeoutMs: random.pick([1, leaseMs, leaseMs * 2]),
    graceMs: random.pick([0, 20, leaseMs * 2]),
    reconcileAfterMs: random.pick([0, leaseMs, leaseMs * 3]),
  };
}
