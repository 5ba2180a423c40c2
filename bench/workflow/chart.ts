import { renderPanels } from "../chart.js";
import { median, medianSample } from "../measure.js";
import { milliseconds, rate } from "../report.js";
import { names } from "./entrants.js";
import type { Taken } from "./passes.js";
import type { Results } from "./results.js";

const palette = {
  [names.ours]: "#2563eb",
  [names.dbos]: "#f59e0b",
  [names.openworkflow]: "#10b981",
  [names.restate]: "#a855f7",
  [names.floor]: "#d1d5db",
};

const inMs = (value: number) => `${milliseconds(value)} ms`;

export function chartOf({ taken, plan: { passes, inFlight, loadMs, steps } }: Results): string {
  const columns = ["PostgreSQL", "its own file (SQLite, Restate's log)"] as const;
  const columnOf = ({ entrant }: Taken) => columns[entrant.store === "postgres" ? 0 : 1];
  const order = Object.keys(palette);
  const rows = [
    {
      title: `runs per second\n${inFlight} in flight`,
      of: (t: Taken) => (t.loads.length > 0 ? medianSample(t.loads).perSecond : undefined),
    },
    {
      title: `p99 latency\n${inFlight} in flight`,
      of: (t: Taken) => (t.loads.length > 0 ? medianSample(t.loads).p99Ms : undefined),
      label: inMs,
    },
    { title: `ms per step\n${steps.toLocaleString("en")} steps`, of: (t: Taken) => median(t.longs.map((l) => l.stepMs)), label: inMs },
  ];
  return renderPanels({
    title: "Durable workflows of three steps, compared with peers",
    subtitle: `Runs per second: higher is better; milliseconds: lower is better. Medians of ${passes} interleaved passes of ${loadMs / 1000} s in one run.`,
    series: palette,
    rows: rows.map(({ title }) => title),
    columns,
    panels: rows.flatMap(({ title, of, label }) =>
      columns.map((column) => ({
        row: title,
        column,
        ...(label === undefined ? {} : { label }),
        bars: taken
          .filter((one) => columnOf(one) === column)
          .flatMap((one) => {
            const value = of(one);
            return value === undefined || Number.isNaN(value) ? [] : [{ series: one.entrant.name, value }];
          })
          .sort((a, b) => order.indexOf(a.series) - order.indexOf(b.series)),
      })),
    ),
    label: (perSecond) => `${rate(perSecond)}/s`,
  });
}
