import { setTimeout as delay } from "node:timers/promises";
import { percentile } from "../measure.js";
import type { SleepPlan, SleepSample, StartedLate } from "./contender.js";

export type Woken = (index: number) => void;

const startedAtOnce = 50;
/** Memory is read this long before the first run is due, when all are asleep. */
const readMemoryBeforeMs = 300;
/** A run that has not woken by then counts as not woken. */
const lateMsMax = 60_000;

/**
 * Starts runs that sleep, reads the memory while they do, and measures how late each of them wakes. A rehearsal with fewer runs
 * comes first, so that memory which starting and waking need is not counted as memory of sleeping runs.
 */
export async function measureSleepers(start: Start, plan: SleepPlan, listen: Listen): Promise<SleepSample | StartedLate> {
  const runs = Math.round(plan.runs / 5);
  const rehearsal = await sleepAndWake(
    start,
    { runs, spreadMs: 1000, leadMs: Math.round(plan.leadMs / 3) + 1000 },
    { listen, firstIndex: plan.runs },
  );
  if ("neededMs" in rehearsal) return { neededMs: rehearsal.neededMs * 5 };
  return await sleepAndWake(start, plan, { listen, firstIndex: 0 });
}

type Start = (index: number, dueAt: number) => Promise<unknown>;
type Listen = (woken: Woken) => void;

async function sleepAndWake(
  start: Start,
  { runs, spreadMs, leadMs }: SleepPlan,
  { listen, firstIndex }: { readonly listen: Listen; readonly firstIndex: number },
): Promise<SleepSample | StartedLate> {
  const lateMs = new Float64Array(runs).fill(Number.NaN);
  let woken = 0;
  let done = () => {};
  const all = new Promise<void>((resolve) => {
    done = resolve;
  });
  const before = await memory();
  const firstDueAt = Date.now() + leadMs;
  const dueAt = (i: number) => Math.round(firstDueAt + (spreadMs * i) / runs);
  listen((index) => {
    const i = index - firstIndex;
    // A replay may call this again, and so may a late run of the rehearsal: only the first call of each run counts.
    if (i < 0 || i >= runs || !Number.isNaN(lateMs[i])) return;
    lateMs[i] = Date.now() - dueAt(i);
    woken += 1;
    if (woken === runs) done();
  });

  const startedMs = await startAll(runs, (i) => start(firstIndex + i, dueAt(i)));
  const waitMs = firstDueAt - readMemoryBeforeMs - Date.now();
  if (waitMs < 0) return { neededMs: startedMs };
  await delay(waitMs);
  const asleep = await memory();
  await Promise.race([all, delay(Math.max(0, firstDueAt + spreadMs - Date.now()) + lateMsMax, undefined, { ref: false })]);

  const sorted = lateMs.filter((late) => !Number.isNaN(late)).sort();
  return {
    runs,
    spreadMs,
    leadMs,
    startedMs,
    rssBytes: asleep.rss - before.rss,
    heapBytes: asleep.heapUsed - before.heapUsed,
    woken,
    lateP50Ms: percentile(sorted, 0.5),
    lateP99Ms: percentile(sorted, 0.99),
    lateMaxMs: sorted.at(-1) ?? Number.NaN,
  };
}

async function startAll(runs: number, start: (index: number) => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  let next = 0;
  const starter = async () => {
    for (; next < runs; ) {
      const index = next;
      next += 1;
      await start(index);
    }
  };
  await Promise.all(Array.from({ length: startedAtOnce }, starter));
  return performance.now() - startedAt;
}

/** Memory after full garbage collections. Later ones return pages that earlier ones have emptied. */
async function memory(): Promise<NodeJS.MemoryUsage> {
  for (let i = 0; i < 3; i++) {
    (globalThis as { gc?: () => void }).gc?.();
    await delay(20);
  }
  return process.memoryUsage();
}
