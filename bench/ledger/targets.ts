import { type Ratio, ratioOf, type Sample } from "../measure.js";
import type { ManyKeys } from "./many-keys.js";
import { type Callers, type Kind, names, type ReplayWrites, type StoreName } from "./subject.js";

/** All samples for one kind of call and one number of callers, by contender. */
export interface Case {
  readonly store: StoreName;
  readonly kind: Kind;
  readonly callers: Callers;
  readonly samples: Readonly<Record<string, readonly Sample[]>>;
  readonly note?: string;
}

export interface Target {
  readonly store: StoreName;
  readonly what: string;
  readonly wanted: string;
  readonly found: string;
  readonly reached: boolean;
}

const timesBareMax = 1.3;
const shareOfBatchedMin = 0.6;
const timesBareMin = 3;
const heapGrowthMax = 4 * 1024 ** 2;
const rssGrowthMax = 32 * 1024 ** 2;

export function targetsOfCase({ store, kind, callers, samples }: Case): Target[] {
  const ours = samples[names.ours];
  const bare = samples[names.bare];
  const batched = samples[names.batched];
  if (kind !== "executed" || !ours || !bare) return [];
  if (callers === 1) {
    const ratio = ratioOf(ours, bare, (s) => s.p50Ms);
    return [
      {
        store,
        what: "executed, 1 caller: p50 ÷ bare floor's p50",
        wanted: `≤ ${timesBareMax}`,
        found: shown(ratio),
        reached: ratio.median <= timesBareMax,
      },
    ];
  }
  if (store === "redis") return redisTargets(callers, ours, bare, samples[names.peer] ?? []);
  if (!batched) return [];
  const ofBatched = ratioOf(ours, batched, (s) => s.perSecond);
  const ofBare = ratioOf(ours, bare, (s) => s.perSecond);
  return [
    {
      store,
      what: `executed, ${callers} callers: rate ÷ batched floor's rate`,
      wanted: `≥ ${shareOfBatchedMin}`,
      found: shown(ofBatched),
      reached: ofBatched.median >= shareOfBatchedMin,
    },
    {
      store,
      what: `executed, ${callers} callers: rate ÷ bare floor's rate`,
      wanted: `≥ ${timesBareMin}`,
      found: shown(ofBare),
      reached: ofBare.median >= timesBareMin,
    },
  ];
}

/** The Redis driver pipelines concurrent requests, so its bare floor is batched. */
function redisTargets(callers: Callers, ours: readonly Sample[], bare: readonly Sample[], peer: readonly Sample[]): Target[] {
  const ofBare = ratioOf(ours, bare, (s) => s.perSecond);
  const ofPeer = ratioOf(ours, peer, (s) => s.perSecond);
  return [
    {
      store: "redis",
      what: `executed, ${callers} callers: rate ÷ rate of bare scripts, pipelined`,
      wanted: `≥ ${shareOfBatchedMin}`,
      found: shown(ofBare),
      reached: ofBare.median >= shareOfBatchedMin,
    },
    {
      store: "redis",
      what: `executed, ${callers} callers: rate ÷ rate of ${names.peer}`,
      wanted: `≥ ${timesBareMin}`,
      found: shown(ofPeer),
      reached: ofPeer.median >= timesBareMin,
    },
  ];
}

function shown({ median, min, max }: Ratio): string {
  return `${median.toFixed(2)} (${min.toFixed(2)}–${max.toFixed(2)})`;
}

export function targetOfReplays(store: StoreName, { replays, counters }: ReplayWrites): Target {
  const written = counters.filter(({ byReplays }) => byReplays !== 0);
  return {
    store,
    what: `${replays.toLocaleString("en")} replays write nothing`,
    wanted: "0",
    found: written.length === 0 ? "0" : written.map(({ name, byReplays }) => `${byReplays} ${name}`).join(", "),
    reached: written.length === 0,
  };
}

/** The memory store keeps its records in memory, so its growth is a figure and not a target. */
export function targetOfMemory({ store, keys, laterHeapGrowthBytes, laterRssGrowthBytes }: ManyKeys): Target[] {
  if (store === "memory") return [];
  return [
    {
      store,
      what: `memory does not grow with keys (from ${(keys / 10).toLocaleString("en")} to ${keys.toLocaleString("en")})`,
      wanted: `heap < ${megabytes(heapGrowthMax)}, RSS < ${megabytes(rssGrowthMax)}`,
      found: `heap ${megabytes(laterHeapGrowthBytes)}, RSS ${megabytes(laterRssGrowthBytes)}`,
      reached: laterHeapGrowthBytes < heapGrowthMax && laterRssGrowthBytes < rssGrowthMax,
    },
  ];
}

export function megabytes(bytes: number): string {
  return `${(bytes / 1024 ** 2).toFixed(1)} MiB`;
}
