import { renderPanels } from "../chart.js";
import type { Conditions } from "../conditions.js";
import { median, medianSample, type Ratio, ratioOf, type Sample } from "../measure.js";
import { type Report, rate, type Section } from "../report.js";
import type { Drained, Flat } from "./backlog.js";
import { floorName, keyedFloorName } from "./floor.js";
import { directRuns, hops } from "./flows.js";

export interface GraphCase {
  readonly title: string;
  readonly samples: ReadonlyMap<string, Sample[]>;
}

interface Measured {
  readonly conditions: Conditions;
  readonly rounds: number;
  readonly roundMs: number;
  readonly callers: number;
  readonly cases: readonly GraphCase[];
  readonly drained: readonly Drained[];
  readonly flat: Flat | undefined;
}

const targets = { direct: 500_000, floor: 0.5, backlog: 0.7 };
const right = true;

export function graphReport({ conditions, rounds, roundMs, callers, cases, drained, flat }: Measured): Report {
  const sections: Section[] = [targetSection(cases, drained, flat), modesSection(cases)];
  return {
    name: "graph",
    title: "Flow graphs",
    intro: [
      `A chain of ${hops} nodes that forward their input, with ${callers} packets in flight; direct calls run one after another. One hop is a packet that enters at the entry or is delivered over an edge. The floor of a store is one row inserted and one row deleted per hop, in a table with a primary key only, with one commit for all hops that wait; for keyed edges also one row per key, inserted and updated.`,
      `Figures are medians of ${rounds} rounds of ${roundMs / 1000} s, in which all contenders of a store take turns, in a separate process for each store. A ratio is the median of the ratios within each round, with the lowest and the highest in brackets.`,
    ],
    conditions,
    sections,
    raw: { cases: cases.map(({ title, samples }) => ({ title, samples: Object.fromEntries(samples) })), drained, flat },
    svg: chart(cases),
  };
}

function hopsPerSecond(name: string): (sample: Sample) => number {
  return ({ perSecond }) => perSecond * hops * (name === "direct" ? directRuns : 1);
}

function targetSection(cases: readonly GraphCase[], drained: readonly Drained[], flat: Flat | undefined): Section {
  const direct = cases.find(({ title }) => title === "Direct")?.samples.get("direct") ?? [];
  const directRate = median(direct.map(hopsPerSecond("direct")));
  const sqlite = toFloor(cases.find(({ title }) => title === "SQLite"));
  const rows = [
    ["direct, hops per second", `≥ ${rate(targets.direct)}`, rate(directRate), verdict(directRate >= targets.direct)],
    ["durable hop on SQLite ÷ its floor", `≥ ${targets.floor}`, ratioText(sqlite), verdict((sqlite?.median ?? 0) >= targets.floor)],
  ];
  const [short, long] = drained;
  if (short && long) {
    const ratio = long.perSecond / short.perSecond;
    const what = `a backlog of ${long.packets.toLocaleString("en")} ÷ one of ${short.packets.toLocaleString("en")}, packets drained per second`;
    rows.push([
      what,
      `≥ ${targets.backlog}`,
      `${ratio.toFixed(2)} (${rate(long.perSecond)} ÷ ${rate(short.perSecond)})`,
      verdict(ratio >= targets.backlog),
    ]);
  }
  if (flat) {
    const [first = 0] = flat.heapMb;
    const last = flat.heapMb.at(-1) ?? 0;
    const what = `heap after ${flat.packets.toLocaleString("en")} packets, and after a tenth of them`;
    rows.push([what, "flat", `${last.toFixed(1)} MB, ${first.toFixed(1)} MB`, verdict(last <= first * 1.1 + 2)]);
  }
  return {
    title: "Targets",
    columns: [{ title: "" }, { title: "target", right }, { title: "measured", right }, { title: "" }],
    rows,
  };
}

function verdict(reached: boolean): string {
  return reached ? "reached" : "not reached";
}

function toFloor(one: GraphCase | undefined, mode = "durable"): Ratio | undefined {
  const floor = one?.samples.get(mode === "keyed" ? keyedFloorName : floorName);
  const ours = one?.samples.get(mode);
  return floor && ours && ratioOf(ours, floor, ({ perSecond }) => perSecond);
}

function ratioText(ratio: Ratio | undefined): string {
  return ratio === undefined ? "" : `${ratio.median.toFixed(2)} (${ratio.min.toFixed(2)}–${ratio.max.toFixed(2)})`;
}

function modesSection(cases: readonly GraphCase[]): Section {
  const rows = cases.flatMap((one) =>
    [...one.samples].map(([name, samples]) => {
      const { countPerOperation } = medianSample(samples);
      return [
        one.title,
        name,
        rate(median(samples.map(hopsPerSecond(name)))),
        name.startsWith("floor") ? "" : ratioText(toFloor(one, name)),
        countPerOperation === undefined ? "" : (countPerOperation / hops).toFixed(3),
      ];
    }),
  );
  return {
    title: "Hops per second",
    columns: [
      { title: "store" },
      { title: "mode" },
      { title: "hops/s", right },
      { title: "÷ its floor", right },
      { title: "flushes per hop", right },
    ],
    rows,
    notes: ["keyed: durable edges with an idempotencyKey. The record of the key is begun and completed together with the packet."],
  };
}

const colours = ["#2563eb", "#0d9488", "#9333ea", "#ea580c", "#64748b"];

function chart(cases: readonly GraphCase[]): string {
  const shown = cases.filter(({ title }) => title !== "Direct");
  const names = [...new Set(shown.flatMap(({ samples }) => [...samples.keys()]))];
  return renderPanels({
    title: "Flow graphs: hops per second",
    subtitle: `a chain of ${hops} nodes; higher is better; every row has its own scale`,
    series: Object.fromEntries(names.map((name, i) => [name, colours[i % colours.length] ?? "#64748b"])),
    rows: shown.map(({ title }) => title),
    columns: ["hops per second"],
    panels: shown.map(({ title, samples }) => ({
      row: title,
      column: "hops per second",
      bars: [...samples].map(([series, all]) => ({ series, value: median(all.map(hopsPerSecond(series))) })),
    })),
    label: rate,
  });
}
