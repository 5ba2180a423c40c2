import { ConfigurationError } from "../../core/errors/errors.js";
import { requireOptional } from "../../core/work/own-url.js";

/**
 * The two drivers, which have one shape: `node:sqlite`, built into Node 22.13 and newer, and its twin for older ones,
 * which carries its binaries. Both are synchronous: a flush is one short stretch of work with no await inside. Both
 * reset a statement that failed: one left standing would keep every later statement from committing (docs/adr/0005).
 */
export interface SqliteStatement {
  run(...values: SqliteValue[]): { readonly changes: number | bigint; readonly lastInsertRowid: number | bigint };
  get(...values: SqliteValue[]): unknown;
  all(...values: SqliteValue[]): unknown[];
}

export interface SqliteDatabase {
  prepare(sql: string): SqliteStatement;
  exec(sql: string): unknown;
  close(): unknown;
}

export type SqliteValue = string | number | bigint | null | Uint8Array;
export type SqliteDriver = "node:sqlite" | "@photostructure/sqlite";

interface DriverModule {
  readonly DatabaseSync: new (path: string) => SqliteDatabase;
}

/** The built-in driver where there is one, else @photostructure/sqlite. */
export function chooseDriver(): SqliteDriver {
  return hasBuiltIn() ? "node:sqlite" : "@photostructure/sqlite";
}

function hasBuiltIn(): boolean {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  return major > 22 || (major === 22 && minor >= 13);
}

export function openDatabase(path: string, driver: SqliteDriver): SqliteDatabase {
  const database = connect(path, driver);
  // Waiting inside SQLite would block the event loop: a busy file is tried again in short turns instead.
  database.exec("PRAGMA busy_timeout = 0");
  return database;
}

function connect(path: string, driver: SqliteDriver): SqliteDatabase {
  const Database = load(driver);
  return new Database(path);
}

function load(driver: SqliteDriver): DriverModule["DatabaseSync"] {
  try {
    return withoutExperimentalWarning(() => requireOptional(driver) as DriverModule).DatabaseSync;
  } catch (error) {
    throw new ConfigurationError(
      `[onceflow] [sqlite] Node ${process.versions.node} has no built-in SQLite, and the package "@photostructure/sqlite" is not installed: npm install @photostructure/sqlite@1 (or run Node 22.13 or newer)`,
      { code: "MISSING_DRIVER", cause: error },
    );
  }
}

/** Node prints one warning when node:sqlite is first loaded. Whoever chose this store has read it in our docs. */
function withoutExperimentalWarning<T>(load: () => T): T {
  const emit = process.emitWarning;
  process.emitWarning = ((warning: string | Error, ...rest: unknown[]) => {
    if (!String(warning).includes("SQLite is an experimental feature")) Reflect.apply(emit, process, [warning, ...rest]);
  }) as typeof process.emitWarning;
  try {
    return load();
  } finally {
    process.emitWarning = emit;
  }
}
