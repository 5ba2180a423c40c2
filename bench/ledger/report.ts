import { renderPanels } from "../chart.js";
import type { Conditions } from "../conditions.js";
import { medianSample, ratioOf } from "../measure.js";
import { milliseconds, type Report, rate, type Section } from "../report.js";
import type { ManyKeys } from "./many-keys.js";
import { callerCounts, kinds, names, type ReplayWrites, type StoreName } from "./subject.js";
import { type Case, megabytes, type Target, targetOfMemory, targetOfReplays, targetsOfCase } from "./targets.js";

export interface Measured {
  readonly conditions: Conditions;
  readonly rounds: number;
  readonly roundMs: number;
  readonly cases: readonly Case[];
  readonly replayWrites: readonly (ReplayWrites & { readonly store: StoreName })[];
  readonly manyKeys: readonly ManyKeys[];
}

const titles: Readonly<Record<StoreName, string>> = {
  sqlite: "SQLite",
  postgres: "PostgreSQL",
  redis: "Redis",
  dynamodb: "DynamoDB Local",
  mongodb: "MongoDB (emulator)",
  memory: "Memory",
};

export function ledgerReport(measured: Measured): Report {
  const { conditions, rounds, roundMs, cases, replayWrites, manyKeys } = measured;
  const targets = [
    ...cases.flatMap(targetsOfCase),
    ...replayWrites.map((counted) => targetOfReplays(counted.store, counted)),
    ...manyKeys.flatMap(targetOfMemory),
  ];
  return {
    name: "ledger",
    title: "The ledger against its floor",
    intro: [
      "`once` with a handler that does nothing, compared with the same driver executing two bare statements (INSERT, then UPDATE by key and owner) with the same durability, in the same run. *Bare* makes each statement durable by itself; *batched* lets all waiting statements share one transaction (SQLite) or one statement over arrays (PostgreSQL), and does nothing else. DynamoDB has no batches of conditional writes, and a batch of MongoDB does not report the outcome of each write: their floors are the two bare requests. MongoDB is an emulator, which evaluates requests in JavaScript. A replay is compared with one read by key.",
      `Figures are medians of ${rounds} rounds of ${roundMs / 1000} s, in which all contenders take turns. A ratio is the median of the ratios within each round, with the lowest and the highest in brackets where shown. Callers are concurrent loops in one process.`,
    ],
    conditions,
    sections: [
      targetSection(targets),
      throughputSection(cases),
      ...(replayWrites.length > 0 ? [replaySection(replayWrites)] : []),
      ...(manyKeys.length > 0 ? [memorySection(manyKeys)] : []),
    ],
    raw: { rounds, roundMs, targets, cases, replayWrites, manyKeys },
    svg: chart(cases, rounds, roundMs),
  };
}

function targetSection(targets: readonly Target[]): Section {
  return {
    title: "Targets",
    columns: [{ title: "store" }, { title: "target" }, { title: "required" }, { title: "measured" }, { title: "" }],
    rows: targets.map(({ store, what, wanted, found, reached }) => [
      titles[store],
      what,
      wanted,
      found,
      reached ? "reached" : "not reached",
    ]),
  };
}

function throughputSection(cases: readonly Case[]): Section {
  const right = true;
  return {
    title: "Throughput and latency",
    columns: [
      { title: "store" },
      { title: "operation" },
      { title: "callers", right },
      { title: "contender" },
      { title: "per second", right },
      { title: "p50 ms", right },
      { title: "p99 ms", right },
      { title: "flushes per operation", right },
      { title: "ours ÷ this, rate", right },
    ],
    rows: cases.flatMap(({ store, kind, callers, samples }) =>
      Object.entries(samples).map(([name, rounds]) => {
        const { perSecond, p50Ms, p99Ms, countPerOperation } = medianSample(rounds);
        const ratio = name === names.ours ? "" : ratioOf(samples[names.ours] ?? [], rounds, (s) => s.perSecond).median.toFixed(2);
        const flushes = countPerOperation === undefined ? "" : countPerOperation.toFixed(3);
        return [titles[store], kind, String(callers), name, rate(perSecond), milliseconds(p50Ms), milliseconds(p99Ms), flushes, ratio];
      }),
    ),
    notes: cases.flatMap(({ store, kind, callers, note }) =>
      note === undefined ? [] : [`${titles[store]}, ${kind}, ${callers} callers: ${note}.`],
    ),
  };
}

function replaySection(replayWrites: Measured["replayWrites"]): Section {
  return {
    title: "Writes of replays",
    columns: [
      { title: "store" },
      { title: "counter" },
      { title: "replays", right: true },
      { title: "change", right: true },
      { title: "change by one executed operation", right: true },
    ],
    rows: replayWrites.flatMap(({ store, replays, counters }) =>
      counters.map(({ name, byReplays, byOneExecuted }) => [titles[store], name, rate(replays), rate(byReplays), rate(byOneExecuted)]),
    ),
  };
}

function memorySection(manyKeys: readonly ManyKeys[]): Section {
  const right = true;
  return {
    title: "Memory with many keys",
    columns: [
      { title: "store" },
      { title: "keys", right },
      { title: "keys per second", right },
      { title: "heap growth", right },
      { title: "RSS growth", right },
      { title: "heap per key", right },
      { title: "heap growth after the first tenth", right },
      { title: "RSS growth after the first tenth", right },
      { title: "stored per key", right },
    ],
    rows: manyKeys.map((m) => [
      titles[m.store],
      rate(m.keys),
      rate(m.perSecond),
      megabytes(m.heapGrowthBytes),
      megabytes(m.rssGrowthBytes),
      m.storedBytes === undefined ? `${rate(m.heapGrowthBytes / m.keys)} B` : "",
      megabytes(m.laterHeapGrowthBytes),
      megabytes(m.laterRssGrowthBytes),
      m.storedBytes === undefined ? "" : `${rate(m.storedBytes / m.keys)} B`,
    ]),
    notes: [
      "Each store has its own process and 256 callers. Heap is read after a full garbage collection. Stored is the size of tables and indexes after the store is closed.",
    ],
  };
}

const palette = {
  [names.ours]: "#2563eb",
  [names.batched]: "#94a3b8",
  [names.bare]: "#d1d5db",
  [names.read]: "#a8c5b5",
  [names.peer]: "#e0b8a0",
};

function chart(cases: readonly Case[], rounds: number, roundMs: number): string {
  const rowOf = ({ kind, callers }: Pick<Case, "kind" | "callers">) => `${kind}\n${callers} ${callers === 1 ? "caller" : "callers"}`;
  const order = Object.keys(palette);
  return renderPanels({
    title: "once() compared with the bare driver: operations per second",
    subtitle: `Higher is better; every panel has its own scale. Medians of ${rounds} interleaved rounds of ${roundMs / 1000} s in one run.`,
    series: palette,
    rows: kinds.flatMap((kind) => callerCounts.map((callers) => rowOf({ kind, callers }))),
    columns: [...new Set(cases.map(({ store }) => titles[store]))],
    panels: cases.map(({ store, samples, ...rest }) => ({
      row: rowOf(rest),
      column: titles[store],
      bars: Object.entries(samples)
        .map(([series, taken]) => ({ series, value: medianSample(taken).perSecond }))
        .sort((a, b) => order.indexOf(a.series) - order.indexOf(b.series)),
    })),
    label: (perSecond) => `${rate(perSecond)}/s`,
  });
}
