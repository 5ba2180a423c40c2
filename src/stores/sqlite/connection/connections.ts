import { mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { UnreachableError } from "../../../core/errors/errors.js";
import { type Backoff, backoffMs, fullJitter, jitteredMs } from "../../../core/work/backoff.js";
import { type Clock, sleep } from "../../../core/work/clock.js";
import { openDatabase, type SqliteDatabase, type SqliteDriver } from "../driver.js";
import { explain, explainOpening, fileGone, isBusy } from "../errors.js";
import { isUpToDate, migrate } from "../migrations/migrate.js";

const busyMsMax = 10_000;
const busyBackoff: Backoff = { minMs: 0.2, maxMs: 10 };

/** Tries until nobody else is writing, in short turns of the event loop, within a bound. Errors of the file become ours. */
export async function whenFree<T>(path: string, clock: Clock, work: () => T, explained = explain): Promise<T> {
  let until: number | undefined;
  for (let failures = 1; ; failures++) {
    try {
      return work();
    } catch (error) {
      if (!isBusy(error)) throw explained(error, path);
      until ??= clock.now() + busyMsMax;
      if (clock.now() > until)
        throw new UnreachableError(`[onceflow] [sqlite] "${path}" was locked by another writer for ${busyMsMax} ms`, error);
      // With jitter: many waiting processes would otherwise come back together.
      await sleep(clock, busyBackoff.minMs + jitteredMs(backoffMs(busyBackoff, failures), fullJitter, Math.random));
    }
  }
}

export interface Connections {
  readonly path: string;
  readonly driver: SqliteDriver;
  /** Our reads and flushes. */
  readonly main: SqliteDatabase;
  /** Another one on the same file, for the transactions of handlers. */
  another(): SqliteDatabase;
  /** Throws when the path does not lead to the open file any more. Takes a few microseconds. */
  requireFile(): void;
  close(): void;
}

export async function openConnections(path: string, driver: SqliteDriver, clock: Clock): Promise<Connections> {
  const main = openFile(path, driver);
  const opened = [main];
  try {
    await whenFree(path, clock, () => main.exec("PRAGMA journal_mode = WAL"), explainOpening);
    main.exec("PRAGMA synchronous = FULL");
    // Whoever comes back after a crash need not wait for those that go on writing.
    if (!(await whenFree(path, clock, () => isUpToDate(main, path), explainOpening))) await bringUpToDate(main, path, clock);
    else requireWritable(main);
  } catch (error) {
    main.close();
    throw explainOpening(error, path);
  }
  const file = statSync(path, { throwIfNoEntry: false });
  return {
    path,
    driver,
    main,
    requireFile() {
      const found = statSync(path, { throwIfNoEntry: false });
      if (found?.ino !== file?.ino || found?.dev !== file?.dev) throw fileGone(path);
    },
    another() {
      const database = openDatabase(path, driver);
      database.exec("PRAGMA synchronous = FULL");
      opened.push(database);
      return database;
    },
    close() {
      for (const database of opened) database.close();
    },
  };
}

function openFile(path: string, driver: SqliteDriver): SqliteDatabase {
  try {
    mkdirSync(dirname(path), { recursive: true });
    return openDatabase(path, driver);
  } catch (error) {
    throw explainOpening(error, path);
  }
}

async function bringUpToDate(database: SqliteDatabase, path: string, clock: Clock): Promise<void> {
  await whenFree(path, clock, () => database.exec("BEGIN IMMEDIATE"), explainOpening);
  try {
    migrate(database, path);
    database.exec("COMMIT");
  } catch (error) {
    undo(database);
    throw error;
  }
}

/** SQLite opens a file that it may not write without an error, for reading only. */
function requireWritable(database: SqliteDatabase): void {
  try {
    // Changes no row. BEGIN IMMEDIATE would not do: on such a file it begins to read.
    database.exec("UPDATE onceflow_schema SET version = version WHERE false");
  } catch (error) {
    // Another connection writes: so the file can be written, and nobody has to wait for that.
    if (!isBusy(error)) throw error;
  }
}

/** A failed write may have rolled back already: then there is nothing to undo, and the first error is the one to report. */
export function undo(database: SqliteDatabase): void {
  try {
    database.exec("ROLLBACK");
  } catch {}
}
