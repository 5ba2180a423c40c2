import { median, medianSample, type Ratio, ratioOf } from "../measure.js";
import { milliseconds } from "../report.js";
import { names, type StoreName } from "./entrants.js";
import type { Taken } from "./passes.js";
import { type Results, rivals, takenBy } from "./results.js";

export interface Target {
  readonly store: StoreName;
  readonly what: string;
  readonly wanted: string;
  readonly found: string;
  readonly reached: boolean;
}

const timesRivalMin = { postgres: 15, sqlite: 10 };
const timesFloorMax = 1.5;
const lastOfFirstMax = 1.1;
const recoveryMsMax = 50;
const sleepersBytesMax = 20e6;
const wakeMsMax = 250;

/** Each as a ratio within this run, where it is one: figures of another machine or another hour do not count. */
export function targetsOf(results: Results): Target[] {
  return [
    ...(["postgres", "sqlite"] as const).flatMap((store) => [...ratesOf(results, store), ...stepsOf(results, store)]),
    ...recoveriesOf(results),
    ...sleepersOf(results),
    ...crewsOf(results),
  ];
}

function ratesOf(results: Results, store: "postgres" | "sqlite"): Target[] {
  const ours = takenBy(results, names.ours, store);
  const theirs = rivals[store].flatMap(([name, on]) => takenBy(results, name, on) ?? []);
  const best = theirs.sort((a, b) => medianSample(b.loads).perSecond - medianSample(a.loads).perSecond)[0];
  if (ours === undefined || best === undefined) return [];
  const rate = ratioOf(ours.loads, best.loads, (s) => s.perSecond);
  const min = timesRivalMin[store];
  const { inFlight } = results.plan;
  const targets: Target[] = [
    {
      store,
      what: `${inFlight} in flight: runs per second ÷ those of ${best.entrant.name}`,
      wanted: `≥ ${min}`,
      found: shown(rate, 1),
      reached: rate.median >= min,
    },
  ];
  if (store === "postgres") targets.push(tailOf(ours, theirs, inFlight));
  return targets;
}

/** Our slow runs against the usual ones of whoever is quickest. */
function tailOf(ours: Taken, theirs: readonly Taken[], inFlight: number): Target {
  const quickest = theirs
    .map(({ entrant, loads }) => ({ name: entrant.name, p50Ms: medianSample(loads).p50Ms }))
    .sort((a, b) => a.p50Ms - b.p50Ms)[0];
  const { p99Ms } = medianSample(ours.loads);
  const p50Ms = quickest?.p50Ms ?? Number.NaN;
  return {
    store: ours.entrant.store,
    what: `${inFlight} in flight: p99 below the p50 of ${quickest?.name}`,
    wanted: `< ${milliseconds(p50Ms)} ms`,
    found: `${milliseconds(p99Ms)} ms`,
    reached: p99Ms < p50Ms,
  };
}

function stepsOf(results: Results, store: "postgres" | "sqlite"): Target[] {
  const ours = takenBy(results, names.ours, store);
  const floor = takenBy(results, names.floor, store);
  if (ours === undefined) return [];
  const { steps } = results.plan;
  const growth = ratioOf(
    ours.longs.map((s) => s.lastStepMs),
    ours.longs.map((s) => s.firstStepMs),
    (ms) => ms,
  );
  const targets: Target[] = [];
  if (floor !== undefined) {
    const price = ratioOf(ours.longs, floor.longs, (s) => s.stepMs);
    targets.push({
      store,
      what: "one step alone ÷ one bare durable commit of its row",
      wanted: `≤ ${timesFloorMax}`,
      found: shown(price),
      reached: price.median <= timesFloorMax,
    });
  }
  targets.push({
    store,
    what: `last ${steps / 10} of ${count(steps)} steps ÷ first ${steps / 10}`,
    wanted: `≤ ${lastOfFirstMax}`,
    found: shown(growth),
    reached: growth.median <= lastOfFirstMax,
  });
  return targets;
}

function recoveriesOf({ recoveries }: Results): Target[] {
  return (["postgres", "sqlite"] as const).flatMap((store) => {
    const mine = recoveries.filter(({ entrant }) => entrant.store === store);
    const [first] = mine;
    if (first === undefined) return [];
    const resumedMs = median(mine.map((r) => r.resumedMs));
    return {
      store,
      what: `a run of ${count(first.steps)} steps goes on after a kill`,
      wanted: `≤ ${recoveryMsMax} ms`,
      found: `${milliseconds(resumedMs)} ms`,
      reached: resumedMs <= recoveryMsMax,
    };
  });
}

function sleepersOf({ sleepers }: Results): Target[] {
  return sleepers
    .filter(({ entrant }) => entrant.kind === "ours")
    .flatMap(({ entrant: { store }, sample: { runs, rssBytes, heapBytes, woken, lateMaxMs } }) => [
      {
        store,
        what: `${count(runs)} runs asleep: memory, RSS or heap, whichever is more`,
        wanted: `≤ ${megabytes(sleepersBytesMax)}`,
        found: megabytes(Math.max(rssBytes, heapBytes)),
        reached: Math.max(rssBytes, heapBytes) <= sleepersBytesMax,
      },
      {
        store,
        what: `${count(runs)} runs asleep: each wakes in time`,
        wanted: `≤ ${wakeMsMax} ms`,
        found: woken === runs ? `${Math.round(lateMaxMs)} ms at most` : `${count(runs - woken)} did not wake`,
        reached: woken === runs && lateMaxMs <= wakeMsMax,
      },
    ]);
}

function crewsOf({ crews }: Results): Target[] {
  const alone = crews.find(({ workers }) => workers === 1);
  if (alone === undefined) return [];
  return crews
    .filter(({ workers }) => workers > 1)
    .map(({ workers, perSecond }) => {
      const ratio = ratioOf(perSecond, alone.perSecond, (rate) => rate);
      return {
        store: "postgres",
        what: `${workers} worker processes ÷ one: runs per second`,
        wanted: "≥ 1",
        found: shown(ratio),
        reached: ratio.median >= 1,
      };
    });
}

function shown({ median: middle, min, max }: Ratio, digits = 2): string {
  return `${middle.toFixed(digits)} (${min.toFixed(digits)}–${max.toFixed(digits)})`;
}

/** Of a million bytes: what the target says. */
export function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

export function count(value: number): string {
  return value.toLocaleString("en");
}
