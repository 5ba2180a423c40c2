import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { acquire } from "../../test/servers/acquire.js";
import type { Acquired } from "../../test/servers/acquire-from.js";
import { startGuard } from "../../test/servers/process/guard.js";
import type { Server } from "../../test/servers/provider.js";
import { type Conditions, machine, versionOf } from "../conditions.js";
import { ask } from "../ledger/postgres-counters.js";
import { sqliteConditions } from "../ledger/sqlite.js";
import { medianSample } from "../measure.js";
import { startProgress } from "../progress.js";
import { printReport, saveReport } from "../report.js";
import { measureAsleep } from "./asleep.js";
import { Bench } from "./bench.js";
import { countDurable } from "./durable-counts.js";
import { type Entrant, type Field, gather, type LeftOut, publishable } from "./entrants.js";
import { measureCrews, measureRecoveries } from "./ours-only.js";
import { measurePasses, type Taken } from "./passes.js";
import { Places } from "./places.js";
import { type Plan, parsePlan } from "./plan.js";
import { workflowReport } from "./report.js";
import type { Results } from "./results.js";
import { measureStepPrice } from "./step-price.js";
import { Turns } from "./turns.js";

/** Gathers the contenders, then measures: passes, syncs and round trips, sleeping runs, and for our library worker crews and recovery. Then reports. */
export async function workflow(args: string[]): Promise<void> {
  const plan = parsePlan(args);
  const guard = await startGuard(join(tmpdir(), "onceflow-bench-"), "SIGKILL");
  const postgres = await acquire("postgres");
  try {
    const places = new Places(guard.folder, postgres.ok ? postgres.running.url : undefined);
    const conditions = { ...machine(guard.folder), ...(await serverConditions(postgres)) };
    const results = await measureAll(new Bench(places, guard), plan, conditions, postgres);
    const report = workflowReport(results);
    printReport(report);
    if (plan.out !== undefined) await saveReport(report, plan.out);
  } finally {
    if (postgres.ok) await postgres.running.stop();
    await guard.release();
  }
}

async function serverConditions(postgres: Acquired<Server>): Promise<Conditions> {
  if (!postgres.ok) return sqliteConditions();
  const [server] = await ask<{ server_version: string }>(postgres.running.url, "SHOW server_version");
  return {
    ...sqliteConditions(),
    postgres: `${server?.server_version.split(" ")[0]}, fsync and synchronous_commit on`,
    "postgres driver": `pg ${versionOf("pg")}`,
  };
}

async function measureAll(bench: Bench, plan: Plan, machineConditions: Conditions, postgres: Acquired<Server>): Promise<Results> {
  process.stderr.write("gathering the contenders; peers are installed on first use\n");
  const field = await gather({ ours: plan.ours, withPeers: plan.peers });
  const { entrants, without } = withPostgres(field, postgres);
  const progress = startProgress(stepsOf(plan, entrants));
  const load = watchLoad();
  try {
    const { taken, leftOut } = await measurePasses(bench, entrants, plan, progress);
    const turns = new Turns(progress, [...field.leftOut, ...without, ...leftOut]);
    const fit = taken.filter(({ loads }) => loads.length > 0);
    const parts = { ...(await measureRunners(bench, plan, fit, turns)), ...(await measureOurs(bench, plan, taken, turns)) };
    const conditions = { ...machineConditions, "highest load during the run": load.highest().toFixed(2), ...field.conditions };
    return { conditions, plan, taken, ...parts, leftOut: turns.leftOut };
  } finally {
    load.stop();
    progress.end();
  }
}

/** Records the highest load: programs that start during the benchmark disturb it, too. */
function watchLoad(): { highest(): number; stop(): void } {
  let highest = 0;
  const sampleLoad = () => {
    highest = Math.max(highest, loadavg()[0] ?? 0);
  };
  const timer = setInterval(sampleLoad, 5000);
  return { highest: () => highest, stop: () => clearInterval(timer) };
}

async function measureRunners(
  bench: Bench,
  plan: Plan,
  fit: readonly Taken[],
  turns: Turns,
): Promise<Pick<Results, "counts" | "sleepers">> {
  const loads = [
    { inFlight: 1, runs: plan.countedAlone },
    { inFlight: plan.inFlight, runs: plan.countedInFlight },
  ];
  const counts = await turns.each(fit, "syncs and round trips", async ({ entrant }) => {
    return { entrant, counts: await countDurable(bench, entrant, loads) };
  });
  const sleepers = await turns.each(fit, "sleeping runs", async ({ entrant, loads: taken }) => {
    return { entrant, sample: await measureAsleep(bench, entrant, plan, medianSample(taken).perSecond) };
  });
  return { counts, sleepers };
}

type OursOnly = Pick<Results, "prices" | "crews" | "recoveries">;

async function measureOurs(bench: Bench, plan: Plan, taken: readonly Taken[], turns: Turns): Promise<OursOnly> {
  const ours = taken.filter(({ entrant, loads }) => entrant.kind === "ours" && loads.length > 0);
  const prices = await turns.each(ours, "a step compared with its floor", ({ entrant }) => {
    const floor = taken.find((t) => t.entrant.kind === "floor" && t.entrant.store === entrant.store);
    if (floor === undefined) throw new Error("there is no floor for this store");
    return measureStepPrice(bench, entrant, floor.entrant, plan);
  });
  const onPostgres = ours.filter(({ entrant }) => entrant.store === "postgres");
  const crews = await turns.each(onPostgres, "several workers", ({ entrant }) => measureCrews(bench, entrant, plan));
  const recoveries = await turns.each(ours, "recovery after a kill", ({ entrant }) => measureRecoveries(bench, entrant, plan));
  return { prices, crews: crews.flat(), recoveries: recoveries.flat() };
}

function withPostgres({ entrants }: Field, postgres: Acquired<Server>): { entrants: readonly Entrant[]; without: LeftOut[] } {
  if (postgres.ok) return { entrants, without: [] };
  const reason = publishable(`PostgreSQL is not available: ${postgres.reason}`);
  return {
    entrants: entrants.filter(({ store }) => store !== "postgres"),
    without: entrants.flatMap(({ name, store }) => (store === "postgres" ? [{ name, store, what: "everything", reason }] : [])),
  };
}

/** Every contender in every pass; those with runs in two more parts; our library in two or three further parts. */
function stepsOf({ passes }: Plan, entrants: readonly Entrant[]): number {
  const ours = entrants.filter(({ kind }) => kind === "ours");
  const runners = entrants.filter(({ kind }) => kind !== "floor");
  return passes * entrants.length + runners.length * 2 + ours.length * 2 + ours.filter(({ store }) => store === "postgres").length;
}
