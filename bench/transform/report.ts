import type { Conditions } from "../conditions.js";
import { medianSample, ratioOf, type Sample } from "../measure.js";
import type { Report } from "../report.js";
import { names, stepsPerRun } from "./contenders.js";
import { filesPerMb } from "./corpus.js";

type Samples = ReadonlyMap<string, Sample[]>;

interface Measured {
  readonly conditions: Conditions;
  readonly rounds: number;
  readonly roundMs: number;
  readonly bytes: number;
  readonly perMb: Samples;
  readonly perFile: Samples;
  readonly perRun: Samples;
}

const right = true;

export function transformReport({ conditions, rounds, roundMs, bytes, perMb, perFile, perRun }: Measured): Report {
  const mb = bytes / 1_000_000;
  const median = (samples: Samples, name: string) => medianSample(samples.get(name) ?? []).p50Ms;
  const ratio = ratioOf(perRun.get(names.directive) ?? [], perRun.get(names.explicit) ?? [], ({ p50Ms }) => p50Ms);
  const share = ratioOf(perMb.get(names.transform) ?? [], perMb.get(names.parse) ?? [], ({ p50Ms }) => p50Ms);
  return {
    name: "transform",
    title: "The transform of directives",
    intro: [
      `${filesPerMb} TypeScript files of about 10 KB, each with six steps, a workflow, \`fetch\` and clocks among classes and types; and files without any of these. For the run time: a workflow of ${stepsPerRun} steps that do nothing, written in both forms, in a memory store, one run at a time.`,
      `Figures are medians of ${rounds} rounds of ${roundMs / 1000} s, in which all contenders take turns. A ratio is the median of the ratios within each round, with the lowest and the highest in brackets.`,
    ],
    conditions,
    sections: [
      {
        title: "When a file is built or loaded",
        columns: [{ title: "" }, { title: "measured", right }],
        rows: [
          [names.transform, `${(median(perMb, names.transform) / mb).toFixed(1)} ms per MB`],
          [names.parse, `${(median(perMb, names.parse) / mb).toFixed(1)} ms per MB`],
          ["the first ÷ the second", range(share)],
          [names.untouched, `${((median(perFile, names.untouched) * 1000) / filesPerMb).toFixed(2)} µs per file`],
          [names.inVain, `${((median(perFile, names.inVain) * 1000) / filesPerMb).toFixed(0)} µs per file`],
        ],
      },
      {
        title: "When it runs",
        columns: [{ title: "" }, { title: "µs per step", right }, { title: "time ÷ explicit", right }],
        rows: [names.directive, names.explicit].map((name) => [
          name,
          ((median(perRun, name) * 1000) / stepsPerRun).toFixed(2),
          name === names.directive ? range(ratio) : "1",
        ]),
      },
    ],
    raw: {
      rounds,
      roundMs,
      bytes,
      perMb: Object.fromEntries(perMb),
      perFile: Object.fromEntries(perFile),
      perRun: Object.fromEntries(perRun),
    },
  };
}

function range({ median, min, max }: { readonly median: number; readonly min: number; readonly max: number }): string {
  return `${median.toFixed(2)} (${min.toFixed(2)}–${max.toFixed(2)})`;
}
