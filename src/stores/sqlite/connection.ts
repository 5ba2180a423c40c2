import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { type Clock, sleep } from "../../core/clock.js";
import { UnreachableError } from "../../core/errors.js";
import { isBusy, openDatabase, type SqliteDatabase, type SqliteDriver } from "./driver.js";
import { isUpToDate, migrate } from "./schema.js";

const busyMsMax = 10_000;

/** Tries until nobody else is writing, in short turns of the event loop, within a bound. */
export async function whenFree<T>(path: string, clock: Clock, work: () => T): Promise<T> {
  const until = clock.now() + busyMsMax;
  for (let tries = 0; ; tries++) {
    try {
      return work();
    } catch (error) {
      if (!isBusy(error)) throw error;
      if (clock.now() > until)
        throw new UnreachableError(`[onceflow] [sqlite] "${path}" was locked by another writer for ${busyMsMax} ms`, error);
      // Spread out, so that many waiting processes do not come back together.
      await sleep(clock, 0.2 + Math.random() * Math.min(2 ** tries * 0.2, 10));
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
  close(): void;
}

export async function openConnections(path: string, driver: SqliteDriver, clock: Clock): Promise<Connections> {
  mkdirSync(dirname(path), { recursive: true });
  const main = openDatabase(path, driver);
  const opened = [main];
  try {
    await whenFree(path, clock, () => main.exec("PRAGMA journal_mode = WAL"));
    main.exec("PRAGMA synchronous = FULL");
    // Whoever comes back after a crash need not wait for those that go on writing.
    if (!(await whenFree(path, clock, () => isUpToDate(main, path)))) await bringUpToDate(main, path, clock);
  } catch (error) {
    main.close();
    throw error;
  }
  return {
    path,
    driver,
    main,
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

async function bringUpToDate(database: SqliteDatabase, path: string, clock: Clock): Promise<void> {
  await whenFree(path, clock, () => database.exec("BEGIN IMMEDIATE"));
  try {
    migrate(database, path);
    database.exec("COMMIT");
  } catch (error) {
    database.exec("ROLLBACK");
    throw error;
  }
}
