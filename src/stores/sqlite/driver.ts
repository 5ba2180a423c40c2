import { createRequire } from "node:module";
import { ConfigurationError, UnreachableError } from "../../core/errors.js";

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

const require = createRequire(import.meta.url);

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

function load(driver: SqliteDriver): DriverModule["DatabaseSync"] {
  try {
    return withoutExperimentalWarning(() => require(driver) as DriverModule).DatabaseSync;
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

const busy = 5;
const locked = 6;
const inputOutput = 10;
const full = 13;

/** Somebody else writes right now. */
export function isBusy(error: unknown): boolean {
  const code = primaryCode(error);
  return code === busy || code === locked;
}

/** The disk or the file failed, not the data: the same write may go through later. */
export function isInputOutput(error: unknown): boolean {
  const code = primaryCode(error);
  return code === inputOutput || code === full;
}

/** SQLite's result code, without the detail that its upper bits carry. */
function primaryCode(error: unknown): number | undefined {
  if (!(error instanceof Error) || !("errcode" in error) || typeof error.errcode !== "number") return undefined;
  return error.errcode & 0xff;
}
