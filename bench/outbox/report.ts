import type { Conditions } from "../conditions.js";
import { medianSample, ratioOf, type Sample } from "../measure.js";
import { milliseconds, type Report, rate } from "../report.js";
import { names } from "./contenders.js";

export interface OutboxCase {
  readonly title: string;
  readonly callers: number;
  readonly samples: ReadonlyMap<string, Sample[]>;
}

interface Measured {
  readonly conditions: Conditions;
  readonly rounds: number;
  readonly roundMs: number;
  readonly cases: readonly OutboxCase[];
}

const right = true;

export function outboxReport({ conditions, rounds, roundMs, cases }: Measured): Report {
  return {
    name: "outbox",
    title: "Outbox",
    intro: [
      "One operation is a message from `add` until its publisher, which does nothing, is called. The settle overlaps with the next messages. The floor is what a minimal outbox writes: one insert and one delete, each durable by itself, on a separate connection (PostgreSQL: 16).",
      `Figures are medians of ${rounds} rounds of ${roundMs / 1000} s, in which all contenders take turns. A ratio is the median of the ratios within each round.`,
    ],
    conditions,
    sections: [
      {
        title: "Messages",
        columns: [
          { title: "store" },
          { title: "callers", right },
          { title: "contender" },
          { title: "per second", right },
          { title: "p50 ms", right },
          { title: "p99 ms", right },
          { title: "rate ÷ bare", right },
        ],
        rows: cases.flatMap(({ title, callers, samples }) =>
          [...samples].map(([name, own]) => {
            const { perSecond, p50Ms, p99Ms } = medianSample(own);
            const ratio = ratioOf(own, samples.get(names.floor) ?? [], (sample) => sample.perSecond).median.toFixed(2);
            return [title, String(callers), name, rate(perSecond), milliseconds(p50Ms), milliseconds(p99Ms), ratio];
          }),
        ),
        notes: ["With one caller, a message waits until the relay notices it: on SQLite up to 25 ms if it was added in a transaction."],
      },
    ],
    raw: { rounds, roundMs, cases: cases.map(({ samples, ...rest }) => ({ ...rest, samples: Object.fromEntries(samples) })) },
  };
}
