import type { Random } from "../random.js";
import { namedChild, type Program, programOf, type StepOptionsPlan, stepOptionsOf, tokensIn } from "./program.js";
import type { RunWeather } from "./run-faults.js";

interface RunPlan {
  readonly id: string;
  readonly program: Program;
}

/** Somebody who starts a run, perhaps one that others start, too, and perhaps waits for its end. */
export interface StarterPlan {
  readonly run: RunPlan;
  /** Asks for another program under the same id: gets the existing run, and is told so. */
  readonly otherInput: boolean;
  readonly slot: number;
  readonly startMs: number;
  readonly waits: boolean;
}

/** Somebody who cancels a run or ends its sleeps. */
export interface MeddlerPlan {
  readonly run: string;
  readonly does: "cancel" | "wakeUp";
  readonly slot: number;
  readonly startMs: number;
}

/** Somebody who did not start a run, and waits for its end. */
export interface WatcherPlan {
  readonly run: string;
  readonly slot: number;
  readonly startMs: number;
}

export interface ResumerPlan {
  readonly token: string;
  readonly payloads: number;
  readonly slot: number;
  readonly startMs: number;
}

interface SlotPlan {
  /** Without one, the process only starts runs and waits for them. */
  readonly worker: boolean;
  readonly concurrency: number;
  /** Until the storm is over it runs code that does not match the journals. */
  readonly strange: boolean;
}

/** A version of the application. Its code diverges on runs that began under the other version. */
export type Version = "old" | "new";

interface BodyPlan {
  readonly msMax: number;
  /** How likely a body is to throw before, or after, its effect; how many of those failures are fatal. */
  readonly throwBefore: number;
  readonly throwAfter: number;
  readonly fatal: number;
  /** How likely reconcile is not to know. */
  readonly cannotTell: number;
  /** How likely a body is to go on although its signal has aborted. */
  readonly deaf: number;
  /** How many processes the first call of the step "plain" kills before it is harmless. */
  readonly poison: number;
}

/** What happens in a seed's world, drawn before it begins. */
export interface WorkflowPlan {
  readonly leaseMs: number;
  readonly slots: readonly SlotPlan[];
  readonly runs: readonly RunPlan[];
  readonly starters: readonly StarterPlan[];
  readonly meddlers: readonly MeddlerPlan[];
  readonly watchers: readonly WatcherPlan[];
  readonly resumers: readonly ResumerPlan[];
  readonly steps: StepOptionsPlan;
  readonly bodies: BodyPlan;
  readonly weather: RunWeather;
  /** How long things go wrong, and how far apart, on average, the blows are that hit a process or the store's clock. */
  readonly stormMs: number;
  readonly blowMs: number;
  readonly jumps: boolean;
  /** A rolling deployment that never ends: the version in each slot. Both have a worker, also when the storm is over. */
  readonly versions: readonly Version[] | undefined;
}

export function workflowPlanOf(random: Random): WorkflowPlan {
  const plan = oneVersionPlanOf(random);
  if (plan.slots.length === 1 || !random.chance(0.3)) return plan;
  const slots = plan.slots.map((slot, i): SlotPlan => ({ ...slot, worker: slot.worker || i === 1, strange: false }));
  const versions = slots.map((_, i): Version => (i < 2 ? (["old", "new"] as const)[i as 0 | 1] : random.pick(["old", "new"])));
  return { ...plan, slots, versions };
}

function oneVersionPlanOf(random: Random): WorkflowPlan {
  const leaseMs = random.pick([100, 300, 1000]);
  const slots = Array.from({ length: random.between(1, 4) }, (_, i): SlotPlan => {
    return { worker: i === 0 || random.chance(0.8), concurrency: random.pick([1, 2, 100, 100]), strange: i > 0 && random.chance(0.1) };
  });
  const somewhere = () => random.between(0, slots.length - 1);
  const sometime = () => random.between(0, leaseMs * 5);
  const runs = Array.from({ length: random.between(1, 3) }, (_, i): RunPlan => {
    const id = `r${i}`;
    return { id, program: programOf(random, id) };
  });
  const starters = runs.flatMap((run) =>
    Array.from({ length: random.between(1, 3) }, (_, i): StarterPlan => {
      const startMs = random.between(0, leaseMs * 3);
      return { run, otherInput: i > 0 && random.chance(0.2), slot: somewhere(), startMs, waits: random.chance(0.7) };
    }),
  );
  const ids = [...runs.map(({ id }) => id), namedChild];
  const meddlers = ids.flatMap((run) =>
    (["cancel", "wakeUp"] as const)
      .filter((does) => random.chance(does === "cancel" ? 0.2 : 0.3))
      .map((does): MeddlerPlan => ({ run, does, slot: somewhere(), startMs: sometime() })),
  );
  const watchers = ids.filter(() => random.chance(0.2)).map((run): WatcherPlan => ({ run, slot: somewhere(), startMs: sometime() }));
  const tokens = new Map(runs.flatMap(({ program }) => tokensIn(program)));
  const resumers = [...tokens].map(([token, payloads]): ResumerPlan => ({ token, payloads, slot: somewhere(), startMs: sometime() }));
  return {
    leaseMs,
    slots,
    runs,
    starters,
    meddlers,
    watchers,
    resumers,
    steps: stepOptionsOf(random, leaseMs),
    bodies: bodiesOf(random, leaseMs),
    weather: weatherOf(random, leaseMs),
    stormMs: random.between(leaseMs * 3, leaseMs * 25),
    blowMs: random.pick([leaseMs, leaseMs * 4, leaseMs * 1000]),
    jumps: random.chance(0.3),
    versions: undefined,
  };
}

function bodiesOf(random: Random, leaseMs: number): BodyPlan {
  const bad = () => (random.chance(0.5) ? random.next() * 0.3 : 0);
  const msMax = random.pick([5, leaseMs, leaseMs * 3]);
  return {
    msMax,
    throwBefore: bad(),
    throwAfter: bad(),
    fatal: bad(),
    cannotTell: bad(),
    deaf: random.pick([0, 0.5, 1]),
    poison: random.pick([0, 0, 0, random.between(1, 14)]),
  };
}

/** Of whatever runs on processes that crash, stall and lose messages. */
export function weatherOf(random: Random, leaseMs: number): RunWeather {
  const bad = () => (random.chance(0.5) ? random.next() * 0.06 : 0);
  return {
    crashBefore: bad(),
    crashAfter: bad(),
    loseRequest: bad(),
    loseReply: bad(),
    unreachable: bad(),
    pause: bad(),
    pauseMsMax: leaseMs * 4,
    latencyMsMax: random.pick([0, 3, Math.ceil(leaseMs / 3)]),
    late: bad(),
    lateMsMax: random.pick([5, leaseMs * 3]),
    loseNews: random.pick([0, 0.3, 1]),
  };
}
