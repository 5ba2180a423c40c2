import type { Random } from "../random.js";
import { startOfWorld } from "../world.js";
import { namedChild, type Program, programOf, type StepOptionsPlan, stepOptionsOf, tokensIn } from "./program.js";
import type { RunWeather } from "./run-faults.js";

interface RunPlan {
  readonly id: string;
  readonly program: Program;
}

/** A client that starts a run and perhaps waits for its end. Several clients may start the same run. */
export interface StarterPlan {
  readonly run: RunPlan;
  /** Starts a different program under the same id: must get the existing run with `mismatch: true`. */
  readonly otherInput: boolean;
  readonly slot: number;
  readonly startMs: number;
  readonly waits: boolean;
}

/** A client that cancels a run or ends its sleeps. */
export interface MeddlerPlan {
  readonly run: string;
  readonly does: "cancel" | "wakeUp";
  readonly slot: number;
  readonly startMs: number;
}

/** A client that waits for the end of a run that it did not start. */
export interface WatcherPlan {
  readonly run: string;
  readonly slot: number;
  readonly startMs: number;
}

/** A client that sends payloads to a hook. */
export interface ResumerPlan {
  readonly token: string;
  readonly payloads: number;
  readonly slot: number;
  readonly startMs: number;
}

interface SlotPlan {
  /** Without a worker, the process only starts runs and waits for them. */
  readonly worker: boolean;
  readonly concurrency: number;
  /** While faults are injected, the process runs code that does not match the journals. */
  readonly incompatible: boolean;
}

/** A version of the application. Its code diverges on runs that started under the other version. */
export type Version = "old" | "new";

interface BodyPlan {
  readonly msMax: number;
  /** Probabilities that a body throws before or after its effect, and that such an error is fatal. */
  readonly throwBefore: number;
  readonly throwAfter: number;
  readonly fatal: number;
  /** Probability that `reconcile` throws or answers "unknown". */
  readonly reconcileFails: number;
  /** Probability that a body continues after its signal has aborted. */
  readonly ignoresAbort: number;
  /** How many processes the first call of the step "plain" kills before it succeeds. */
  readonly poison: number;
}

/** Operators who retry, fork, resolve and delete runs. */
interface OperatorsPlan {
  /** How often each operator acts, and the longest pause between two actions. */
  readonly actions: readonly number[];
  readonly pauseMsMax: number;
  /** A provider that the steps of one name need is away until this time: then they succeed. */
  readonly outage: { readonly name: string; readonly until: number };
}

/** Deadlines of runs, by their id; operators also cancel, terminate, pause, resume and wake runs. */
interface StopsPlan {
  readonly timeouts: ReadonlyMap<string, number>;
}

interface PlanOptions {
  readonly operators: boolean;
  readonly stops: boolean;
}

const withoutOperators: PlanOptions = { operators: false, stops: false };

/** What happens in the world of a seed, drawn before the world starts. */
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
  /** How long faults are injected, and the mean time between faults that hit a process or the store's clock outside store calls. */
  readonly stormMs: number;
  readonly blowMs: number;
  /** Whether the store's clock may jump. */
  readonly jumps: boolean;
  /** A rolling deployment that never completes: the version in each slot. Both versions keep a worker, also after the faults have stopped. */
  readonly versions: readonly Version[] | undefined;
  readonly operators: OperatorsPlan | undefined;
  readonly stops: StopsPlan | undefined;
}

export function workflowPlanOf(random: Random, options: PlanOptions = withoutOperators): WorkflowPlan {
  const plan = oneVersionPlanOf(random, options);
  if (plan.slots.length === 1 || !random.chance(0.3)) return plan;
  const slots = plan.slots.map((slot, i): SlotPlan => ({ ...slot, worker: slot.worker || i === 1, incompatible: false }));
  const versions = slots.map((_, i): Version => (i < 2 ? (["old", "new"] as const)[i as 0 | 1] : random.pick(["old", "new"])));
  return { ...plan, slots, versions };
}

function oneVersionPlanOf(random: Random, options: PlanOptions): WorkflowPlan {
  const leaseMs = random.pick([100, 300, 1000]);
  const slots = Array.from({ length: random.between(1, 4) }, (_, i): SlotPlan => {
    return { worker: i === 0 || random.chance(0.8), concurrency: random.pick([1, 2, 100, 100]), incompatible: i > 0 && random.chance(0.1) };
  });
  const somewhere = () => random.between(0, slots.length - 1);
  const sometime = () => random.between(0, leaseMs * 5);
  const runs = Array.from({ length: random.between(1, 3) }, (_, i): RunPlan => {
    const id = `r${i}`;
    return { id, program: programOf(random, id, { fails: options.operators }) };
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
  // A fork, or a run that was deleted and started again, creates hooks with the same tokens.
  const times = options.operators ? 1000 : 1;
  const resumers = [...tokens].map(([token, payloads]): ResumerPlan => {
    return { token, payloads: payloads * times, slot: somewhere(), startMs: sometime() };
  });
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
    operators: options.operators ? operatorsOf(random, leaseMs) : undefined,
    stops: options.stops ? stopsOf(random, leaseMs, runs) : undefined,
  };
}

function stopsOf(random: Random, leaseMs: number, runs: readonly RunPlan[]): StopsPlan {
  const limited = runs.filter(() => random.chance(0.4));
  return { timeouts: new Map(limited.map(({ id }) => [id, random.between(1, leaseMs * random.pick([3, 20, 60]))])) };
}

function operatorsOf(random: Random, leaseMs: number): OperatorsPlan {
  return {
    actions: Array.from({ length: random.between(1, 3) }, () => random.between(1, 8)),
    pauseMsMax: random.pick([leaseMs, leaseMs * 4, leaseMs * 12]),
    outage: { name: random.pick(["a", "b", "c", "none"]), until: startOfWorld + random.between(0, leaseMs * 40) },
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
    reconcileFails: bad(),
    ignoresAbort: random.pick([0, 0.5, 1]),
    poison: random.pick([0, 0, 0, random.between(1, 14)]),
  };
}

/** Draws the faults for a world with processes that crash, stall and lose messages. */
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
    loseNotification: random.pick([0, 0.3, 1]),
  };
}
