import { renderPanels } from "../chart.js";
import type { Conditions } from "../conditions.js";
import { medianSample, type Ratio, ratioOf, type Sample } from "../measure.js";
import { milliseconds, type Report, rate } from "../report.js";
import { names } from "./contenders.js";
import type { Storm } from "./storm.js";

type Samples = ReadonlyMap<string, Sample[]>;

export interface HttpCase {
  readonly title: string;
  readonly samples: Samples;
}

interface Measured {
  readonly conditions: Conditions;
  readonly rounds: number;
  readonly roundMs: number;
  readonly callers: number;
  readonly cases: readonly HttpCase[];
  readonly storm: Storm;
}

const right = true;
const tripsMax: Readonly<Record<string, number>> = { [names.fresh]: 2, [names.replayed]: 1 };

export function httpReport({ conditions, rounds, roundMs, callers, cases, storm }: Measured): Report {
  return {
    name: "http",
    title: "Idempotency keys over HTTP",
    intro: [
      `One Express route that only answers, without and with keys, called by ${callers} concurrent callers over loopback, with client and server in one process. The peer is @node-idempotency/core on the same Redis. It has no lease and no fence: a process that dies leaves its key locked until it expires.`,
      `Figures are medians of ${rounds} rounds of ${roundMs / 1000} s, in which all contenders take turns. A ratio is the median of the ratios within each round, with the lowest and the highest in brackets. Round trips are flushes per request. One flush carries all requests that wait at the same time, so there are fewer than the 2 of a single first request and the 1 of a single replay, which a test counts.`,
    ],
    conditions,
    sections: [
      {
        title: "Requests",
        columns: [
          { title: "store" },
          { title: "contender" },
          { title: "per second", right },
          { title: "p50 ms", right },
          { title: "p99 ms", right },
          { title: "round trips", right },
          { title: "rate ÷ no keys", right },
        ],
        rows: cases.flatMap(({ title, samples }) =>
          [...samples].map(([name, own]) => {
            const { perSecond, p50Ms, p99Ms, countPerOperation } = medianSample(own);
            const trips = countPerOperation === undefined ? "" : `${countPerOperation.toFixed(2)} (≤ ${tripsMax[name]})`;
            const ratio = shown(ratioOf(own, samples.get(names.bare) ?? [], (sample) => sample.perSecond));
            return [title, name, rate(perSecond), milliseconds(p50Ms), milliseconds(p99Ms), trips, ratio];
          }),
        ),
        notes: cases.flatMap(({ title, samples }) => versusPeer(title, samples)),
      },
      {
        title: `${storm.requests.toLocaleString("en")} concurrent duplicates of one key`,
        columns: [{ title: "" }, { title: "target", right }, { title: "measured", right }],
        rows: [
          ["executions", "1", String(storm.executions)],
          ["different answers", "1", String(storm.answers)],
          ["flushes", "", String(storm.flushes)],
          ["took", "", `${milliseconds(storm.tookMs)} ms`],
          [
            "heap per waiting request, its Request object included",
            "",
            `${Math.round(storm.heapBytesPerRequest).toLocaleString("en")} bytes`,
          ],
        ],
      },
    ],
    raw: { rounds, roundMs, callers, storm, cases: cases.map(({ title, samples }) => ({ title, samples: Object.fromEntries(samples) })) },
    svg: chart(cases, rounds, roundMs, callers),
  };
}

function versusPeer(title: string, samples: Samples): string[] {
  const [theirs, theirReplays] = [samples.get(names.peerFresh), samples.get(names.peerReplayed)];
  if (!theirs || !theirReplays) return [];
  const fresh = ratioOf(samples.get(names.fresh) ?? [], theirs, (sample) => sample.perSecond);
  const replays = ratioOf(samples.get(names.replayed) ?? [], theirReplays, (sample) => sample.perSecond);
  return [`${title}: rate ÷ the peer's rate: ${shown(fresh)} with new keys, ${shown(replays)} for replays.`];
}

function shown({ median, min, max }: Ratio): string {
  return `${median.toFixed(2)} (${min.toFixed(2)}–${max.toFixed(2)})`;
}

const colors: Readonly<Record<string, string>> = {
  [names.bare]: "#94a3b8",
  [names.fresh]: "#2563eb",
  [names.replayed]: "#10b981",
  [names.peerFresh]: "#f59e0b",
  [names.peerReplayed]: "#fcd34d",
};

function chart(cases: readonly HttpCase[], rounds: number, roundMs: number, callers: number): string {
  const column = `requests per second, ${callers} callers`;
  return renderPanels({
    title: "Idempotency keys over HTTP",
    subtitle: `Medians of ${rounds} rounds of ${roundMs / 1000} s`,
    series: colors,
    rows: cases.map(({ title }) => title),
    columns: [column],
    panels: cases.map(({ title, samples }) => ({
      row: title,
      column,
      bars: [...samples].map(([series, own]) => ({ series, value: medianSample(own).perSecond })),
    })),
    label: rate,
  });
}
