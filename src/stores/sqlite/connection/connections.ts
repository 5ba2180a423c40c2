import { mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { UnreachableError } from "../../../core/errors/errors.js";
import { type Backoff, backoffMs, fullJitter, jitteredMs } from "../../../core/work/backoff.js";
import { type Clock, sleep } from "../../../core/work/clock.js";
import { openDatabase, type SqliteDatabase, type SqliteDriver } from "../driver.js";
import { explain, explainOpening, fileGone, isBusy } from "../errors.js";
import { isUpToDate, migrate } from "../migrations/migrate.js";

const busyMsMax = 10_000;
/** How often a write looks whether the file is still there. A look takes half as long as all else that a write does outside of SQLite. */
const fileCheckMs = 100;
const busyBackoff: Backoff = { minMs: 0.2, maxMs: 10 };

/**
 * Retries `work` while another connection writes, without blocking the event loop, for at most `busyMsMax`. Converts errors with
 * `explained`.
 */
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
      // With jitter: otherwise many waiting processes would retry at the same time.
      await sleep(clock, busyBackoff.minMs + jitteredMs(backoffMs(busyBackoff, failures), fullJitter, Math.random));
    }
  }
}

export interface Connections {
  readonly path: string;
  readonly driver: SqliteDriver;
  /** For reads and flushes. */
  readonly main: SqliteDatabase;
  /** Opens another connection to the same file, for the transactions of handlers. */
  another(): SqliteDatabase;
  /** Throws if the path no longer refers to the open file. Looks at most every {@link fileCheckMs}. */
  requireFile(): void;
  close(): void;
}

export async function openConnections(path: string, driver: SqliteDriver, clock: Clock): Promise<Connections> {
  const main = openFile(path, driver);
  const opened = [main];
  try {
    await whenFree(path, clock, () => main.exec("PRAGMA journal_mode = WAL"), explainOpening);
    main.exec("PRAGMA synchronous = FULL");
    // Only reads if the schema is up to date: a process that restarts need not wait for processes that write.
    if (!(await whenFree(path, clock, () => isUpToDate(main, path), explainOpening))) await bringUpToDate(main, path, clock);
    else requireWritable(main);
  } catch (error) {
    main.close();
    throw explainOpening(error, path);
  }
  const file = statSync(path, { throwIfNoEntry: false });
  let checkedAt = clock.now();
  return {
    path,
    driver,
    main,
    requireFile() {
      const now = clock.now();
      if (now - checkedAt < fileCheckMs) return;
      const found = statSync(path, { throwIfNoEntry: false });
      if (found?.ino !== file?.ino || found?.dev !== file?.dev) throw fileGone(path);
      checkedAt = now;
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

/** Throws if the file cannot be written: SQLite opens such a file read-only, without an error. */
function requireWritable(database: SqliteDatabase): void {
  try {
    // Changes no row. BEGIN IMMEDIATE would not detect it: on such a file it begins a read transaction.
    database.exec("UPDATE onceflow_schema SET version = version WHERE false");
  } catch (error) {
    // Another connection writes, so the file is writable.
    if (!isBusy(error)) throw error;
  }
}

/** Rolls back. Errors are ignored: a failed write may already have rolled back, and the original error is the one to report. */
export function undo(database: SqliteDatabase): void {
  try {
    database.exec("ROLLBACK");
  } catch {}
}
