import { open } from "onceflow";
import { executes, freshKeys, times } from "./ours.js";

/** Runs in its own process, so that the memory is that of one store only. */
export interface MemorySample {
  readonly keys: number;
  readonly rssBytes: number;
  readonly heapBytes: number;
}

export type FromChild = { readonly doneShare: number } | { readonly samples: readonly MemorySample[]; readonly perSecond: number };

const [url = "", keysText = ""] = process.argv.slice(2);
const keysMax = Number(keysText);
const shares = 20;

function sampleMemory(keys: number): MemorySample {
  (globalThis as { gc?: () => void }).gc?.();
  const { rss, heapUsed } = process.memoryUsage();
  return { keys, rssBytes: rss, heapBytes: heapUsed };
}

const report = (message: FromChild) => void process.send?.(message);
const store = await open(url);
const work = executes(store, freshKeys());
const samples = [sampleMemory(0)];
let tookMs = 0;
for (let share = 1; share <= shares; share++) {
  const startedAt = performance.now();
  await times(Math.round((keysMax * share) / shares) - Math.round((keysMax * (share - 1)) / shares), 256, work);
  tookMs += performance.now() - startedAt;
  samples.push(sampleMemory(Math.round((keysMax * share) / shares)));
  report({ doneShare: share / shares });
}
await store.close();
report({ samples, perSecond: (keysMax / tookMs) * 1000 });
process.disconnect?.();
