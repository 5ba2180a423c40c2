import { setTimeout as delay } from "node:timers/promises";
import { percentile } from "../measure.js";
import type { SleepPlan, SleepSample, StartedLate } from "./contender.js";

export type Woken = (index: number) => void;

const startedAtOnce = 50;
/** All are asleep and none is due yet: then memory is looked at. */
const lookBeforeMs = 300;
/** Who has not woken by then does not. */
const lateMsMax = 60_000;

/**
 * Starts runs that sleep, looks at the memory while they do, and at how late each of them wakes. All of it is rehearsed
 * with fewer: what starting and waking leave behind in the heap is not what sleeping needs.
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
    // A replay may pass here again, and a late one of the rehearsal: only the first time of its own counts.
    if (i < 0 || i >= runs || !Number.isNaN(lateMs[i])) return;
    lateMs[i] = Date.now() - dueAt(i);
    woken += 1;
    if (woken === runs) done();
  });

  const startedMs = await startAll(runs, (i) => start(firstIndex + i, dueAt(i)));
  const untilLookMs = firstDueAt - lookBeforeMs - Date.now();
  if (untilLookMs < 0) return { neededMs: startedMs };
  await delay(untilLookMs);
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

/** After full collections, of which the later ones give pages back that the earlier ones emptied. */
async function memory(): Promise<NodeJS.MemoryUsage> {
  for (let i = 0; i < 3; i++) {
    (globalThis as { gc?: () => void }).gc?.();
    await delay(20);
  }
  return process.memoryUsage();
}
