import { median, medianSample, percentile, type Ratio, ratioOf } from "../measure.js";
import { names, type StoreName } from "./entrants.js";
import type { Taken } from "./passes.js";
import { type Results, rivals, takenBy } from "./results.js";

export interface Target {
  readonly store: StoreName;
  readonly what: string;
  readonly wanted: string;
  readonly found: string;
  /** Undecided: the measured values are on both sides of the requirement, or are impossible. */
  readonly verdict: "reached" | "not reached" | "undecided" | "not measured";
}

const timesRivalMin = { postgres: 15, sqlite: 10 };
const timesFloorMax = 1.5;
const lastOfFirstMax = 1.1;
const recoveryMsMax = 50;
const sleepersBytesMax = 20e6;
const wakeMsMax = 250;

/** Targets are ratios within this run where possible: figures of another machine or another hour do not count. */
export function targetsOf(results: Results): Target[] {
  return [
    ...(["postgres", "sqlite"] as const).flatMap((store) => [...ratesOf(results, store), ...stepsOf(results, store)]),
    ...recoveriesOf(results),
    ...sleepersOf(results),
    ...crewsOf(results),
    ...missing(results),
  ];
}

function ratesOf(results: Results, store: "postgres" | "sqlite"): Target[] {
  const ours = takenBy(results, names.ours, store);
  const theirs = rivals[store].flatMap(([name, on]) => takenBy(results, name, on) ?? []);
  const best = theirs.toSorted((a, b) => medianSample(b.loads).perSecond - medianSample(a.loads).perSecond)[0];
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
      verdict: verdict(rate, (ratio) => ratio >= min),
    },
  ];
  if (store === "postgres") targets.push(tailOf(ours, theirs, inFlight));
  return targets;
}

/** Our p99 compared with the p50 of the fastest peer, pass by pass. */
function tailOf(ours: Taken, theirs: readonly Taken[], inFlight: number): Target {
  const quickest = theirs.toSorted((a, b) => medianSample(a.loads).p50Ms - medianSample(b.loads).p50Ms)[0];
  const pairs = ours.loads.flatMap(({ p99Ms }, i) => {
    const their = quickest?.loads[i];
    return their === undefined ? [] : [p99Ms / their.p50Ms];
  });
  const ratio = { median: median(pairs), min: Math.min(...pairs), max: Math.max(...pairs) };
  return {
    store: ours.entrant.store,
    what: `${inFlight} in flight: p99 ÷ the p50 of ${quickest?.entrant.name}`,
    wanted: "< 1",
    found: shown(ratio),
    verdict: verdict(ratio, (times) => times < 1),
  };
}

function stepsOf({ prices, plan: { steps } }: Results, store: "postgres" | "sqlite"): Target[] {
  const measured = prices.find(({ entrant }) => entrant.store === store);
  if (measured === undefined) return [];
  const { rounds, growths } = measured;
  const price = quartiles(rounds.map(({ oursMs, floorMs }) => oursMs / floorMs));
  const growth = quartiles(growths.map(({ firstMs, lastMs }) => lastMs / firstMs));
  return [
    {
      store,
      what: "one step alone ÷ one bare durable commit of its row",
      wanted: `≤ ${timesFloorMax}`,
      found: shown(price),
      // A step contains such a commit, so a price below it is a measurement error.
      verdict: price.median < 1 ? "undecided" : verdict(price, (ratio) => ratio <= timesFloorMax),
    },
    {
      store,
      what: `last ${steps / 10} of ${count(steps)} steps ÷ first ${steps / 10}`,
      wanted: `≤ ${lastOfFirstMax}`,
      found: shown(growth),
      verdict: verdict(growth, (ratio) => ratio <= lastOfFirstMax),
    },
  ];
}

function recoveriesOf({ recoveries }: Results): Target[] {
  return (["postgres", "sqlite"] as const).flatMap((store) => {
    const mine = recoveries.filter(({ entrant }) => entrant.store === store);
    const [first] = mine;
    if (first === undefined) return [];
    const took = mine.map((r) => r.resumedMs);
    const ms = { median: median(took), min: Math.min(...took), max: Math.max(...took) };
    return {
      store,
      what: `a run of ${count(first.steps)} steps continues after a kill`,
      wanted: `≤ ${recoveryMsMax} ms`,
      found: `${shown(ms, 0)} ms`,
      verdict: verdict(ms, (value) => value <= recoveryMsMax),
    };
  });
}

function sleepersOf({ sleepers }: Results): Target[] {
  return sleepers
    .filter(({ entrant }) => entrant.kind === "ours")
    .flatMap(({ entrant: { store }, sample: { runs, rssBytes, heapBytes, woken, lateMaxMs } }) => [
      {
        store,
        what: `${count(runs)} sleeping runs: memory, the higher of RSS and heap`,
        wanted: `≤ ${megabytes(sleepersBytesMax)}`,
        found: megabytes(Math.max(rssBytes, heapBytes)),
        verdict: Math.max(rssBytes, heapBytes) <= sleepersBytesMax ? "reached" : "not reached",
      },
      {
        store,
        what: `${count(runs)} sleeping runs: each wakes in time`,
        wanted: `≤ ${wakeMsMax} ms`,
        found: woken === runs ? `${Math.round(lateMaxMs)} ms at most` : `${count(runs - woken)} did not wake`,
        verdict: woken === runs && lateMaxMs <= wakeMsMax ? "reached" : "not reached",
      },
    ]);
}

/** If a part failed, its targets are missing: they are listed as not measured, with the reason. */
function missing({ leftOut }: Results): Target[] {
  return leftOut
    .filter(({ name }) => name === names.ours)
    .map(({ store, what, reason }) => ({
      store,
      what: `everything about: ${what}`,
      wanted: "",
      found: reason,
      verdict: "not measured" as const,
    }));
}

function crewsOf({ crews }: Results): Target[] {
  const alone = crews.find(({ workers }) => workers === 1);
  if (alone === undefined) return [];
  return crews
    .filter(({ workers }) => workers > 1)
    .map(({ workers, perSecond }) => {
      const ratio = ratioOf(perSecond, alone.perSecond, (rate) => rate);
      return {
        store: "postgres" as const,
        what: `${workers} worker processes ÷ one: runs per second`,
        wanted: "≥ 1",
        found: shown(ratio),
        verdict: verdict(ratio, (times) => times >= 1),
      };
    });
}

/** Decides only if the lowest and the highest value agree. */
function verdict({ min, max }: Ratio, holds: (value: number) => boolean): Target["verdict"] {
  if (holds(min) !== holds(max)) return "undecided";
  return holds(min) ? "reached" : "not reached";
}

/** The middle half of many short rounds: a single stall of the disk is no evidence. */
function quartiles(ratios: readonly number[]): Ratio {
  const sorted = ratios.toSorted((a, b) => a - b);
  return { median: percentile(sorted, 0.5), min: percentile(sorted, 0.25), max: percentile(sorted, 0.75) };
}

function shown({ median: middle, min, max }: Ratio, digits = 2): string {
  return `${middle.toFixed(digits)} (${min.toFixed(digits)}–${max.toFixed(digits)})`;
}

/** In millions of bytes, like the target. */
export function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

export function count(value: number): string {
  return value.toLocaleString("en");
}
