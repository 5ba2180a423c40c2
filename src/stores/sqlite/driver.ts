import { createRequire } from "node:module";
import { ConfigurationError, UnreachableError } from "../../core/errors.js";

/**
 * The two drivers, as one shape: `node:sqlite`, built into Node 22.13 and newer, and `libsql`, which carries its
 * binaries, for Node 20. Both are synchronous: a flush is one short stretch of work with no await inside.
 */
export interface SqliteStatement {
  run(...values: SqliteValue[]): { readonly changes: number | bigint };
  get(...values: SqliteValue[]): unknown;
  all(...values: SqliteValue[]): unknown[];
}

export interface SqliteDatabase {
  prepare(sql: string): SqliteStatement;
  exec(sql: string): unknown;
  close(): unknown;
}

export type SqliteValue = string | number | bigint | null | Uint8Array;
export type SqliteDriver = "node:sqlite" | "libsql";

interface DriverModule {
  readonly DatabaseSync?: new (path: string) => SqliteDatabase;
}

const require = createRequire(import.meta.url);

/** The built-in driver where there is one, else libsql. */
export function chooseDriver(): SqliteDriver {
  return hasBuiltIn() ? "node:sqlite" : "libsql";
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
  try {
    return new Database(path);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new UnreachableError(
      `[onceflow] [sqlite] cannot open "${path}": ${why}. Does its folder exist, and may this user write there?`,
      error,
    );
  }
}

function load(driver: SqliteDriver): new (path: string) => SqliteDatabase {
  if (driver === "node:sqlite") {
    const { DatabaseSync } = withoutExperimentalWarning(() => require("node:sqlite") as DriverModule);
    if (DatabaseSync) return DatabaseSync;
  }
  try {
    return require("libsql") as new (
      path: string,
    ) => SqliteDatabase;
  } catch (error) {
    throw new ConfigurationError(
      `[onceflow] [sqlite] Node ${process.versions.node} has no built-in SQLite, and the package "libsql" is not installed: npm install libsql (or run Node 22.13 or newer)`,
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

/** The row, and nothing of the driver's: libsql adds how long it took. */
export function getRow<Row>(statement: SqliteStatement, ...values: SqliteValue[]): Row | undefined {
  const row = statement.get(...values) as (Row & { _metadata?: unknown }) | undefined;
  if (row && "_metadata" in row) delete row._metadata;
  return row ?? undefined;
}

const busy = 5;
const locked = 6;

/** Somebody else writes right now. */
export function isBusy(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code, errcode } = error as { code?: unknown; errcode?: unknown };
  if (typeof errcode === "number") return (errcode & 0xff) === busy || (errcode & 0xff) === locked;
  return typeof code === "string" && (code.startsWith("SQLITE_BUSY") || code.startsWith("SQLITE_LOCKED"));
}

/** The disk or the file failed, not the data: the same write may go through later. */
export function isInputOutput(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code, errcode } = error as { code?: unknown; errcode?: unknown };
  const inputOutput = 10;
  const full = 13;
  if (typeof errcode === "number") return (errcode & 0xff) === inputOutput || (errcode & 0xff) === full;
  return typeof code === "string" && (code.startsWith("SQLITE_IOERR") || code.startsWith("SQLITE_FULL"));
}
