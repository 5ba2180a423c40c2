import { renderPanels } from "../chart.js";
import type { Conditions } from "../conditions.js";
import { medianSample, ratioOf, type Sample } from "../measure.js";
import { milliseconds, type Report, rate } from "../report.js";
import { keyedSteps, names, plainRuns, plainSteps } from "./contenders.js";

type Samples = ReadonlyMap<string, Sample[]>;

export interface FlowCase {
  readonly title: string;
  readonly samples: Samples;
}

interface Measured {
  readonly conditions: Conditions;
  readonly rounds: number;
  readonly roundMs: number;
  readonly plain: Samples;
  readonly keyed: readonly FlowCase[];
}

const targetUs = 3;
const right = true;

export function flowReport({ conditions, rounds, roundMs, plain, keyed }: Measured): Report {
  const overhead = overheadUs(plain);
  const reached = overhead.max <= targetUs ? "reached" : overhead.min > targetUs ? "not reached" : "undecided";
  return {
    name: "flow",
    title: "Keyed flows",
    intro: [
      `Without a key: a flow of ${plainSteps} steps that do nothing, compared with the same functions awaited one after another. Under a key: ${keyedSteps} steps, one run at a time, each under a fresh key, compared with \`once\` with a result of the same size, which is the minimum that a key costs.`,
      `Figures are medians of ${rounds} rounds of ${roundMs / 1000} s, in which all contenders take turns. A ratio is the median of the ratios within each round. An overhead is the median of the differences within each round, with the lowest and the highest in brackets.`,
    ],
    conditions,
    sections: [
      {
        title: "Without a key",
        columns: [{ title: "" }, { title: "target", right }, { title: "measured", right }, { title: "" }],
        rows: [
          [
            "overhead per step over calling the functions by hand",
            `≤ ${targetUs} µs`,
            `${overhead.median.toFixed(2)} (${overhead.min.toFixed(2)}–${overhead.max.toFixed(2)}) µs`,
            reached,
          ],
        ],
        notes: [...plain].map(([name, samples]) => `${name}: ${perStepUs(medianSample(samples)).toFixed(2)} µs per step.`),
      },
      {
        title: "Under keys",
        columns: [
          { title: "store" },
          { title: "contender" },
          { title: "per second", right },
          { title: "p50 ms", right },
          { title: "p99 ms", right },
          { title: "round trips", right },
          { title: "time ÷ once", right },
        ],
        rows: keyed.flatMap(({ title, samples }) =>
          [...samples].map(([name, own]) => {
            const { perSecond, p50Ms, p99Ms, countPerOperation } = medianSample(own);
            const ratio = ratioOf(own, samples.get(names.once) ?? [], ({ p50Ms }) => p50Ms).median.toFixed(2);
            return [title, name, rate(perSecond), milliseconds(p50Ms), milliseconds(p99Ms), (countPerOperation ?? 0).toFixed(2), ratio];
          }),
        ),
        notes: [
          "Round trips are flushes, as the store counts them. A durable flow makes one more for every step except the last. The memory store saves no progress, because nothing outlives the process.",
        ],
      },
    ],
    raw: {
      rounds,
      roundMs,
      plain: Object.fromEntries(plain),
      keyed: keyed.map(({ title, samples }) => ({ title, samples: Object.fromEntries(samples) })),
    },
    svg: chart(keyed, rounds, roundMs),
  };
}

function perStepUs({ p50Ms }: Sample): number {
  return (p50Ms * 1000) / plainRuns / plainSteps;
}

function overheadUs(plain: Samples): { readonly median: number; readonly min: number; readonly max: number } {
  const byHand = plain.get(names.byHand) ?? [];
  const differences = (plain.get(names.flow) ?? [])
    .map((sample, i) => perStepUs(sample) - perStepUs(byHand[i] as Sample))
    .sort((a, b) => a - b);
  return {
    median: differences[differences.length >> 1] ?? Number.NaN,
    min: differences[0] ?? Number.NaN,
    max: differences.at(-1) ?? Number.NaN,
  };
}

const colors: Readonly<Record<string, string>> = {
  [names.once]: "#94a3b8",
  [names.notDurable]: "#38bdf8",
  [names.durable]: "#2563eb",
  [names.replayed]: "#10b981",
};

function chart(keyed: readonly FlowCase[], rounds: number, roundMs: number): string {
  const column = "runs per second, one at a time";
  return renderPanels({
    title: "Keyed flows of three steps",
    subtitle: `Medians of ${rounds} rounds of ${roundMs / 1000} s`,
    series: colors,
    rows: keyed.map(({ title }) => title),
    columns: [column],
    panels: keyed.map(({ title, samples }) => ({
      row: title,
      column,
      bars: [...samples].map(([series, own]) => ({ series, value: medianSample(own).perSecond })),
    })),
    label: rate,
  });
}
