import { availableParallelism } from "node:os";
import type { Conditions } from "../conditions.js";
import { median, medianSample, ratioOf } from "../measure.js";
import { milliseconds, type Report, rate, type Section } from "../report.js";
import { chartOf } from "./chart.js";
import { names, storeTitles } from "./entrants.js";
import type { Taken } from "./passes.js";
import { type Results, takenBy } from "./results.js";
import { count, megabytes, type Target, targetsOf } from "./targets.js";

const right = true;

export function workflowReport(results: Results): Report {
  const { conditions, plan, ...measured } = results;
  const targets = targetsOf(results);
  const { passes, inFlight, loadMs, steps } = plan;
  return {
    name: "workflow",
    title: "Workflows compared with peers",
    intro: [
      `All contenders do the same work in one benchmark: runs of three steps that do nothing, ${inFlight} in flight, and one run of ${count(steps)} steps. Each contender has its own process and an empty database or folder, and runs alone. All take turns in ${passes} passes of ${loadMs / 1000} s, and each pass begins with another contender. Figures are medians of the passes. A ratio is the median of the ratios within each pass, with the lowest and the highest in brackets.`,
      ...(isBusy(conditions) ? [busyNote] : []),
      "All contenders are durable: PostgreSQL with fsync and synchronous_commit on, SQLite in WAL mode with synchronous = FULL, Restate with its own defaults, which sync. A run counts as done when its last commit is durable.",
    ],
    conditions,
    sections: [
      ...(targets.length > 0 ? [targetSection(targets)] : []),
      loadSection(results),
      longSection(results),
      ...(results.counts.length > 0 ? [countSection(results)] : []),
      ...(results.sleepers.length > 0 ? [sleeperSection(results)] : []),
      ...(results.crews.length > 0 ? [crewSection(results)] : []),
      ...(results.recoveries.length > 0 ? [recoverySection(results)] : []),
      ...(results.leftOut.length > 0 ? [leftOutSection(results)] : []),
    ],
    raw: { targets, ...withoutPaths(measured) },
    svg: chartOf(results),
  };
}

const busyNote =
  "**The machine was busy with other work** (see the load below): use these figures for ratios only, and do not use those with a wide range.";

/** The benchmark itself keeps a few processes busy, so a higher load is allowed during the run than before it. */
function isBusy(conditions: Conditions): boolean {
  const cores = availableParallelism();
  return Number(conditions["load before the run"]) > cores || Number(conditions["highest load during the run"]) > cores * 3;
}

/** Removes the paths of modules and of Node, because results are published. */
function withoutPaths<T>(value: T): T {
  return JSON.parse(JSON.stringify(value, (key, inner: unknown) => (key === "module" || key === "node" ? undefined : inner))) as T;
}

function targetSection(targets: readonly Target[]): Section {
  return {
    title: "Targets",
    columns: [{ title: "store" }, { title: "target" }, { title: "required" }, { title: "measured" }, { title: "" }],
    rows: targets.map(({ store, what, wanted, found, verdict }) => [storeTitles[store], what, wanted, found, verdict]),
    notes: [
      "In brackets: the lowest and the highest pass. For a step and its floor, which take turns in many short rounds, and for first and last steps: the middle half. Undecided: the values are on both sides of the requirement, or a step was measured as cheaper than the commit inside it, which is impossible.",
    ],
  };
}

function loadSection(results: Results): Section {
  const { taken, plan } = results;
  return {
    title: `Three steps, ${plan.inFlight} in flight`,
    columns: [
      { title: "contender" },
      { title: "store" },
      { title: "runs per second", right },
      { title: "lowest–highest", right },
      { title: "p50 ms", right },
      { title: "p99 ms", right },
      { title: "Node's CPU", right },
      { title: "ours ÷ this, rate", right },
    ],
    rows: [
      ...taken.filter(({ loads }) => loads.length > 0).map((one) => loadRow(results, one)),
      // Contenders without figures are listed, too: their reasons are in the section "Left out".
      ...absent(results).map(({ name, store }) => [name, storeTitles[store], "left out", "", "", "", "", ""]),
    ],
    notes: [
      "Node's CPU is the share of one core that the process uses which starts and executes the runs. Servers are not included.",
      "The handle of OpenWorkflow polls for a result once a second, so its runs are timed by the write that completes them.",
      "Restate is called as a service without a key, which is faster than its keyed workflows, and its service runs on its own thread.",
    ],
  };
}

function loadRow(results: Results, one: Taken): string[] {
  const { perSecond, p50Ms, p99Ms } = medianSample(one.loads);
  const rates = one.loads.map((l) => l.perSecond);
  return [
    one.entrant.name,
    storeTitles[one.entrant.store],
    rate(perSecond),
    `${rate(Math.min(...rates))}–${rate(Math.max(...rates))}`,
    milliseconds(p50Ms),
    milliseconds(p99Ms),
    `${Math.round(median(one.loads.map((l) => l.cpu)) * 100)} %`,
    timesOf(results, one),
  ];
}

function absent({ leftOut, taken }: Results): Results["leftOut"] {
  const has = (name: string, store: string) =>
    taken.some(({ entrant, loads, longs }) => entrant.name === name && entrant.store === store && loads.length + longs.length > 0);
  return leftOut.filter(({ name, store }) => !has(name, store));
}

/** The ratio to our library on the same store; for Restate, which has its own log, on SQLite. */
function timesOf(results: Results, { entrant, loads }: Taken): string {
  if (entrant.kind === "ours") return "";
  const ours = takenBy(results, names.ours, entrant.store === "own" ? "sqlite" : entrant.store);
  return ours === undefined ? "" : ratioOf(ours.loads, loads, (s) => s.perSecond).median.toFixed(1);
}

function longSection({ taken, plan: { steps } }: Results): Section {
  const share = steps / 10;
  return {
    title: `One run of ${count(steps)} steps`,
    columns: [
      { title: "contender" },
      { title: "store" },
      { title: "ms per step", right },
      { title: `first ${share}`, right },
      { title: `last ${share}`, right },
      { title: "last ÷ first", right },
      { title: "whole run, s", right },
    ],
    rows: taken
      .filter(({ longs }) => longs.length > 0)
      .map(({ entrant, longs }) => {
        const of = (figure: (long: (typeof longs)[number]) => number) => median(longs.map(figure));
        return [
          entrant.name,
          storeTitles[entrant.store],
          milliseconds(of((l) => l.stepMs)),
          milliseconds(of((l) => l.firstStepMs)),
          milliseconds(of((l) => l.lastStepMs)),
          of((l) => l.lastStepMs / l.firstStepMs).toFixed(2),
          of((l) => l.totalMs / 1000).toFixed(2),
        ];
      }),
    notes: [
      "One run at a time. A step is timed from the beginning of its body to the beginning of the next one; figures are medians within the run. The floor is one journal row, committed by itself through the store's driver.",
    ],
  };
}

function countSection({ counts }: Results): Section {
  const shown = (value: number | null) => (value === null ? "" : value.toFixed(2));
  return {
    title: "Durable syncs and round trips of one run of three steps",
    columns: [
      { title: "contender" },
      { title: "store" },
      { title: "in flight", right },
      { title: "syncs", right },
      { title: "round trips", right },
      { title: "transactions", right },
      { title: "flushes", right },
    ],
    rows: counts.flatMap(({ entrant, counts: each }) =>
      each.map((c) => [
        entrant.name,
        storeTitles[entrant.store],
        String(c.inFlight),
        shown(c.syncsPerRun),
        shown(c.roundTripsPerRun),
        shown(c.commitsPerRun),
        shown(c.flushesPerRun),
      ]),
    ),
    notes: [
      "PostgreSQL: its own counters of log syncs and of committed transactions, including those that only read. A round trip is a request that the process waited for. Other stores: calls of fsync, fdatasync and sync_file_range by the process and its servers. Flushes are counted by our store.",
    ],
  };
}

function sleeperSection({ sleepers, plan }: Results): Section {
  const { sleepers: full, peerSleepers: fewer } = plan;
  return {
    title: "Sleeping runs",
    columns: [
      { title: "contender" },
      { title: "store" },
      { title: "runs", right },
      { title: "RSS added", right },
      { title: "heap added", right },
      { title: "heap per run", right },
      { title: "late p50 ms", right },
      { title: "late p99 ms", right },
      { title: "late max ms", right },
      { title: "did not wake", right },
    ],
    rows: sleepers.map(({ entrant, sample: s }) => [
      entrant.name,
      storeTitles[entrant.store],
      count(s.runs),
      megabytes(s.rssBytes),
      megabytes(s.heapBytes),
      `${count(Math.round(s.heapBytes / s.runs))} B`,
      milliseconds(s.lateP50Ms),
      milliseconds(s.lateP99Ms),
      milliseconds(s.lateMaxMs),
      count(s.runs - s.woken),
    ]),
    notes: [
      `Ours: ${count(full.runs)} runs, due one after another over ${full.spreadMs / 1000} s. Peers: as many per second, but ${count(fewer.runs)} over ${fewer.spreadMs / 1000} s, because at their rates ${count(full.runs)} sleeping runs would take longer than the rest of this benchmark. Memory is that of the Node process after full garbage collections, while all runs sleep, less its memory after a rehearsal with a fifth of the runs. RSS still varies by megabytes with what the collector returns to the system, so it may be negative. Memory of servers is not included.`,
    ],
  };
}

function crewSection({ crews, plan }: Results): Section {
  return {
    title: "Several worker processes on one PostgreSQL",
    columns: [
      { title: "worker processes", right },
      { title: "runs per second, in total", right },
      { title: "lowest–highest", right },
    ],
    rows: crews.map(({ workers, perSecond }) => [
      String(workers),
      rate(median(perSecond)),
      `${rate(Math.min(...perSecond))}–${rate(Math.max(...perSecond))}`,
    ]),
    notes: [
      `Each process starts and executes its own runs, ${plan.inFlight} in flight. The processes and PostgreSQL share the cores of this machine.`,
    ],
  };
}

function recoverySection({ recoveries }: Results): Section {
  return {
    title: "Recovery after a kill",
    columns: [{ title: "store" }, { title: "steps", right }, { title: "ms until the interrupted step begins again", right }],
    rows: recoveries.map(({ entrant, steps, resumedMs }) => [storeTitles[entrant.store], count(steps), milliseconds(resumedMs)]),
    notes: [
      "The worker is killed by SIGKILL in the last step. After its lease has expired, a new process opens the store. The time is measured from the start of its worker, which claims the run, reads its journal and replays it.",
    ],
  };
}

function leftOutSection({ leftOut }: Results): Section {
  return {
    title: "Left out",
    columns: [{ title: "contender" }, { title: "store" }, { title: "what" }, { title: "reason" }],
    rows: leftOut.map(({ name, store, what, reason }) => [name, storeTitles[store], what, reason.replaceAll("|", "/")]),
  };
}
