import { ConfigurationError } from "../../core/errors/errors.js";
import { requireOptional } from "../../core/work/own-url.js";

/**
 * The common interface of the two drivers: `node:sqlite`, built into Node 22.13 and newer, and `@photostructure/sqlite` for older
 * versions, which contains its own binaries. Both are synchronous, so a flush has no await inside. Both
 * reset a statement that failed: otherwise no later statement could commit (docs/adr/0005).
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

/** The built-in driver if Node has it, else @photostructure/sqlite. */
export function chooseDriver(): SqliteDriver {
  return hasBuiltIn() ? "node:sqlite" : "@photostructure/sqlite";
}

function hasBuiltIn(): boolean {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  return major > 22 || (major === 22 && minor >= 13);
}

export function openDatabase(path: string, driver: SqliteDriver): SqliteDatabase {
  const database = connect(path, driver);
  // Waiting inside SQLite would block the event loop: so a busy file is retried by `whenFree`.
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

/** Suppresses the warning that Node prints when node:sqlite is first loaded: the docs mention it. */
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
