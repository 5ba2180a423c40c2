import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { open, type Store } from "onceflow";
import { acquire } from "../../test/servers/acquire.js";
import { freshDatabase } from "../../test/servers/free-database.js";
import { machine } from "../conditions.js";
import { type Contender, inRounds, type Sample } from "../measure.js";
import { startProgress } from "../progress.js";
import { printReport, saveReport } from "../report.js";
import { type Drained, drain, memoryOver } from "./backlog.js";
import { postgresFloor, sqliteFloor } from "./floor.js";
import { contender, type Mode } from "./flows.js";
import { type GraphCase, graphReport } from "./report.js";

const full = { rounds: 5, roundMs: 3000, warmUpMs: 500, short: 10_000, long: 1_000_000, flat: 1_000_000 };
const quick = { rounds: 2, roundMs: 400, warmUpMs: 100, short: 1000, long: 10_000, flat: 10_000 };

/** Packets under way at once. */
const callers = 100;

/** Every mode on every store beside the least that a hop can cost there; a long backlog; memory over a long run. */
export async function graph(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: { quick: { type: "boolean", default: false }, "no-backlog": { type: "boolean", default: false }, out: { type: "string" } },
  });
  const size = values.quick ? quick : full;
  const { rounds, roundMs, warmUpMs } = size;
  const folder = await mkdtemp(join(tmpdir(), "onceflow-bench-graph-"));
  const steps = size.long + size.short + size.flat;
  const progress = startProgress(values["no-backlog"] ? 11 : steps + 11 * (steps / 10));
  const tick = values["no-backlog"] ? 1 : steps / 10;
  const closing: (() => unknown)[] = [];
  const measured = async (title: string, at: number, contenders: readonly Contender[]): Promise<GraphCase> => {
    progress.now(title);
    const samples: ReadonlyMap<string, Sample[]> = await inRounds(contenders, { callers: at, rounds, forMs: roundMs, warmUpMs });
    progress.tick(tick * contenders.length);
    return { title, samples };
  };
  try {
    const cases: GraphCase[] = [];
    const inMemory = async (title: string, at: number, modes: readonly Mode[]) => {
      const stores = await storesFor(modes, () => open("memory:"));
      const found = await measured(title, at, await contendersOn(stores));
      // What it has kept is gone before the next ones are measured: a large heap would slow them down.
      for (const store of stores.values()) await store.close();
      return found;
    };
    cases.push(await inMemory("Direct", 1, ["direct"]));
    cases.push(await inMemory("Memory", callers, ["ephemeral", "checkpoint", "durable", "keyed"]));

    const floor = sqliteFloor(join(folder, "floor.db"));
    const sqlite = await storesFor(["durable", "keyed"], (mode) => open(`sqlite:${join(folder, `${mode}.db`)}`));
    cases.push(await measured("SQLite", callers, [floor.contender, ...(await contendersOn(sqlite))]));
    floor.close();
    for (const store of sqlite.values()) await store.close();

    const postgres = await acquire("postgres");
    if (postgres.ok) {
      closing.push(() => postgres.running.stop());
      const bare = await postgresFloor((await freshDatabase(postgres.running.url)).url);
      const stores = await storesFor(["durable", "keyed"], async () => open((await freshDatabase(postgres.running.url)).url));
      cases.push(await measured("PostgreSQL", callers, [bare.contender, ...(await contendersOn(stores))]));
      await bare.close();
      for (const store of stores.values()) await store.close();
    }

    const onProgress = (done: number) => progress.tick(done);
    const drained: Drained[] = [];
    if (!values["no-backlog"]) {
      progress.now(`a backlog of ${size.short.toLocaleString("en")}`);
      drained.push(await drain(folder, size.short, onProgress));
      progress.now(`a backlog of ${size.long.toLocaleString("en")}`);
      drained.push(await drain(folder, size.long, onProgress));
      progress.now("memory");
    }
    const flat = values["no-backlog"] ? undefined : await memoryOver(folder, size.flat, onProgress);
    progress.end();
    const report = graphReport({ conditions: machine(folder), rounds, roundMs, callers, cases, drained, flat });
    printReport(report);
    const out = values.out ?? (values.quick ? undefined : fileURLToPath(new URL("../../../bench/results/", import.meta.url)));
    if (out !== undefined) await saveReport(report, out);
  } finally {
    progress.end();
    for (const close of closing.reverse()) await close();
    await rm(folder, { recursive: true, force: true });
  }
}

/** One of its own for each: what one mode keeps is not in the way of another. */
async function storesFor(modes: readonly Mode[], make: (mode: Mode) => Promise<Store>): Promise<ReadonlyMap<Mode, Store>> {
  const stores = new Map<Mode, Store>();
  for (const mode of modes) stores.set(mode, await make(mode));
  return stores;
}

async function contendersOn(stores: ReadonlyMap<Mode, Store>): Promise<Contender[]> {
  const contenders: Contender[] = [];
  for (const [mode, store] of stores) contenders.push(await contender(mode, store, mode));
  return contenders;
}
