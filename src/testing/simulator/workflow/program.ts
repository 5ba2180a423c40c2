import type { Random } from "../random.js";

/** Steps of each effect class, and of the options that change when a body may begin or how its call is named. */
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

/** A workflow as data: the input of a run, which the one workflow of the simulation executes. */
export type Program =
  | { readonly do: "step"; readonly kind: StepKind; readonly name: string; readonly draws: boolean }
  | { readonly do: "sleep"; readonly ms: number }
  | { readonly do: "draw" }
  /** Writes to a stream of the run, as its streaming steps do. */
  | { readonly do: "say" }
  | { readonly do: "hook"; readonly token: string; readonly payloads: number; readonly as: HookForm }
  | { readonly do: "child"; readonly id: string | null; readonly program: Program; readonly awaited: boolean }
  | { readonly do: "sequence" | "all" | "race" | "any" | "settled"; readonly of: readonly Program[] }
  /** What it throws is caught, and made up for. */
  | { readonly do: "try"; readonly program: Program; readonly otherwise: Program }
  /** Begins it and does not wait for it. */
  | { readonly do: "leave"; readonly program: Program };

/** Awaited one after the other, iterated over, served by a step each, or asked for its conflict and disposed of in the end. */
type HookForm = "awaited" | "iterated" | "served" | "asked";

const depthMax = 3;

/** A token that several hooks of one world want. */
const sharedToken = "shared";
/** A run that several runs of one world may call their child. */
export const namedChild = "named child";

export function programOf(random: Random, run: string): Program {
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
        // A run of that id may be somebody else's.
        const id = random.chance(0.3) ? random.pick([namedChild, "r0"]) : null;
        children += 1;
        // A child that waits for its parent's end would wait for ever.
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
  return { do: "sequence", of: several(0, random.between(1, 4)) };
}

/** Small, and without children of its own. */
function programInside(random: Random, name: string): Program {
  const leaf = (i: number): Program => {
    if (random.chance(0.2)) return { do: "hook", token: `${name} hook ${i}`, payloads: 1, as: "awaited" };
    if (random.chance(0.2)) return { do: "sleep", ms: random.pick([0, 100, 1500]) };
    return { do: "step", kind: random.pick(["plain", "keyed", "brittle"]), name: "c", draws: false };
  };
  return { do: "sequence", of: Array.from({ length: random.between(1, 2) }, (_, i) => leaf(i)) };
}

/** Every token in a program, and how many payloads are wanted under it. */
export function tokensIn(program: Program): [token: string, payloads: number][] {
  switch (program.do) {
    case "hook":
      return [[program.token, program.token === sharedToken ? 1000 : program.payloads]];
    case "try":
      return [...tokensIn(program.program), ...tokensIn(program.otherwise)];
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
