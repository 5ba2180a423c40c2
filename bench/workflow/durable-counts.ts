import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { ask } from "../ledger/postgres-counters.js";
import type { Bench } from "./bench.js";
import type { Counted } from "./contender.js";
import type { Entrant } from "./entrants.js";
import type { Place } from "./places.js";

/** The cost of one run in syncs of the disk and in round trips to the database. */
export interface DurableCounts {
  readonly inFlight: number;
  readonly runs: number;
  readonly syncsPerRun: number;
  /** On PostgreSQL only. */
  readonly roundTripsPerRun: number | null;
  readonly commitsPerRun: number | null;
  /** As the library itself counts them; our library only. */
  readonly flushesPerRun: number | null;
}

const boundMs = 120_000;

type Loads = readonly { readonly inFlight: number; readonly runs: number }[];

export async function countDurable(bench: Bench, entrant: Entrant, loads: Loads): Promise<DurableCounts[]> {
  return entrant.store === "postgres" ? await onPostgres(bench, entrant, loads) : await underStrace(bench, entrant, loads);
}

/**
 * Uses the counters of the server. They are complete only when the connections that caused them have ended, so they are read
 * before the contender is opened and after it is closed, and the counts of an idle contender are subtracted.
 */
async function onPostgres(bench: Bench, entrant: Entrant, loads: Loads): Promise<DurableCounts[]> {
  const life = async (load: Loads[number]) => {
    const place = await bench.places.inDatabase();
    try {
      const before = await counters(place.url);
      const process = await bench.open(entrant, place, { countsRoundTrips: true });
      const counted = await process.ask("count", load, boundMs).finally(() => process.close());
      await untilDisconnected(place.url);
      const after = await counters(place.url);
      return { counted, syncs: after.syncs - before.syncs, commits: after.commits - before.commits };
    } finally {
      await place.release();
    }
  };
  const idle = await life({ inFlight: 1, runs: 0 });
  const counts: DurableCounts[] = [];
  for (const load of loads) {
    const { counted, syncs, commits } = await life(load);
    counts.push({
      ...perRun(load, counted),
      roundTripsPerRun: counted.roundTrips / load.runs,
      syncsPerRun: (syncs - idle.syncs) / load.runs,
      commitsPerRun: (commits - idle.commits) / load.runs,
    });
  }
  return counts;
}

async function counters(url: string): Promise<{ readonly syncs: number; readonly commits: number }> {
  const [row] = await ask<{ syncs: string; commits: string }>(
    url,
    `SELECT (${await syncsSql(url)}) AS syncs, (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()) AS commits`,
  );
  return { syncs: Number(row?.syncs), commits: Number(row?.commits) };
}

/** PostgreSQL 18 has the counter in another view. */
async function syncsSql(url: string): Promise<string> {
  const here = await ask(url, "SELECT 1 FROM pg_attribute WHERE attrelid = 'pg_stat_wal'::regclass AND attname = 'wal_sync'");
  return here.length > 0 ? "SELECT wal_sync FROM pg_stat_wal" : "SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal'";
}

async function untilDisconnected(url: string): Promise<void> {
  const others = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
  for (const until = performance.now() + 10_000; performance.now() < until; ) {
    if ((await ask(url, others)).length === 0) return;
    await new Promise((soon) => setTimeout(soon, 20));
  }
}

/** Counts the system calls of the process and its children. strace stops the process only at the counted calls. */
async function underStrace(bench: Bench, entrant: Entrant, loads: Loads): Promise<DurableCounts[]> {
  if (!hasStrace()) throw new Error("strace, which counts the syncs, is not installed");
  const place = await bench.places.inFolder();
  const log = join(place.folder, "syncs.log");
  const traced = ["strace", "-f", "--seccomp-bpf", "-qq", "-ttt", "-e", "trace=fsync,fdatasync,sync_file_range", "-o", log];
  try {
    const counted = await inFolder(bench, entrant, { place, loads, under: traced });
    const syncsAt = await readSyncs(log);
    return counted.map(({ load, count }) => {
      const syncs = syncsAt.filter((at) => at >= count.fromMs && at <= count.untilMs).length;
      return {
        ...perRun(load, count),
        roundTripsPerRun: null,
        commitsPerRun: null,
        syncsPerRun: syncs / load.runs,
      };
    });
  } finally {
    await place.release();
  }
}

interface InFolder {
  readonly place: Place;
  readonly loads: Loads;
  readonly under: readonly string[];
}

async function inFolder(bench: Bench, entrant: Entrant, { place, loads, under }: InFolder) {
  const process = await bench.open(entrant, place, { under });
  try {
    const counted: { readonly load: Loads[number]; readonly count: Counted }[] = [];
    for (const load of loads) counted.push({ load, count: await process.ask("count", load, boundMs) });
    return counted;
  } finally {
    await process.close();
  }
}

function perRun({ inFlight, runs }: Loads[number], { flushes }: Counted) {
  return { inFlight, runs, flushesPerRun: flushes === null ? null : flushes / runs };
}

async function readSyncs(log: string): Promise<number[]> {
  const lines = (await readFile(log, "utf8")).split("\n");
  return lines.flatMap((line) => {
    // "1234 1700000000.123456 fdatasync(7) = 0"; an interrupted call has a second line, without the parenthesis.
    const [, seconds] = /^\d+\s+([\d.]+) (?:fsync|fdatasync|sync_file_range)\(/.exec(line) ?? [];
    return seconds === undefined ? [] : [Number(seconds) * 1000];
  });
}

function hasStrace(): boolean {
  return (process.env.PATH ?? "").split(delimiter).some((folder) => existsSync(join(folder, "strace")));
}
