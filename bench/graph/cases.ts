import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { open, type Store } from "onceflow";
import { acquire } from "../../test/servers/acquire.js";
import { freshDatabase } from "../../test/servers/postgres/databases.js";
import { type Contender, inRounds, type Sample } from "../measure.js";
import { postgresFloor, sqliteFloor } from "./floor.js";
import { contender, type Mode } from "./flows.js";
import type { GraphCase } from "./report.js";

export interface Rounds {
  readonly rounds: number;
  readonly roundMs: number;
  readonly warmUpMs: number;
}

/** Packets in flight. */
export const callers = 100;

const cases: Readonly<Record<string, (size: Rounds) => Promise<ReadonlyMap<string, Sample[]> | undefined>>> = {
  Direct: (size) => inMemory(["direct"], 1, size),
  Memory: (size) => inMemory(["ephemeral", "checkpoint", "durable", "keyed"], callers, size),
  SQLite: onSqlite,
  PostgreSQL: onPostgres,
};

export const titles = Object.keys(cases);

/** Measures a case in its own process with one store, like an application: earlier cases do not slow it down. */
export async function caseInProcess(title: string, flags: readonly string[]): Promise<GraphCase | undefined> {
  const args = [process.argv[1] as string, "graph", "--case", title, ...flags];
  const { stdout } = await promisify(execFile)(process.execPath, args, { maxBuffer: 2 ** 28 });
  const samples = JSON.parse(stdout) as [string, Sample[]][] | null;
  return samples === null ? undefined : { title, samples: new Map(samples) };
}

/** Runs in that process. */
export async function printCase(title: string, size: Rounds): Promise<void> {
  const samples = await cases[title]?.(size);
  process.stdout.write(JSON.stringify(samples === undefined ? null : [...samples]));
}

async function inMemory(modes: readonly Mode[], at: number, size: Rounds): Promise<ReadonlyMap<string, Sample[]>> {
  return await onStores(modes, () => open("memory:"), [], at, size);
}

async function onSqlite(size: Rounds): Promise<ReadonlyMap<string, Sample[]>> {
  const folder = await mkdtemp(join(tmpdir(), "onceflow-bench-graph-"));
  const floors = [false, true].map((keyed) => sqliteFloor(join(folder, `floor-${keyed}.db`), { keyed }));
  const bare = floors.map(({ contender }) => contender);
  try {
    return await onStores(["durable", "keyed"], (mode) => open(`sqlite:${join(folder, `${mode}.db`)}`), bare, callers, size);
  } finally {
    for (const floor of floors) floor.close();
    await rm(folder, { recursive: true, force: true });
  }
}

async function onPostgres(size: Rounds): Promise<ReadonlyMap<string, Sample[]> | undefined> {
  const postgres = await acquire("postgres");
  if (!postgres.ok) return undefined;
  const fresh = async () => (await freshDatabase(postgres.running.url)).url;
  const floors = [await postgresFloor(await fresh()), await postgresFloor(await fresh(), { keyed: true })];
  const bare = floors.map(({ contender }) => contender);
  try {
    return await onStores(["durable", "keyed"], async () => open(await fresh()), bare, callers, size);
  } finally {
    for (const floor of floors) await floor.close();
    await postgres.running.stop();
  }
}

/** Each mode has its own store, so that the data of one does not slow down another. */
async function onStores(
  modes: readonly Mode[],
  openFor: (mode: Mode) => Promise<Store>,
  floor: readonly Contender[],
  at: number,
  { rounds, roundMs, warmUpMs }: Rounds,
): Promise<ReadonlyMap<string, Sample[]>> {
  const stores: Store[] = [];
  const contenders = [...floor];
  for (const mode of modes) {
    const store = await openFor(mode);
    stores.push(store);
    contenders.push(await contender(mode, store, mode));
  }
  try {
    return await inRounds(contenders, { callers: at, rounds, forMs: roundMs, warmUpMs });
  } finally {
    for (const store of stores) await store.close();
  }
}
