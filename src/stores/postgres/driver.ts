import type pg from "pg";
import { ConfigurationError, NotKnownError, OnceflowError, UnreachableError } from "../../core/errors.js";

export type PgModule = typeof pg;
export type PgClient = Pick<pg.Client, "query">;

export async function loadDriver(): Promise<PgModule> {
  try {
    return (await import("pg")).default;
  } catch (error) {
    throw new ConfigurationError('[onceflow] [postgres] the package "pg" is not installed: npm install pg', {
      code: "MISSING_DRIVER",
      cause: error,
    });
  }
}

/** Every number of ours fits into a double; the driver would hand out 64-bit integers as strings. */
export const numberTypes = (pg: PgModule): pg.CustomTypesConfig => ({
  getTypeParser: ((oid: number, format?: "text" | "binary") =>
    oid === pg.types.builtins.INT8 ? Number : pg.types.getTypeParser(oid, format as "text")) as pg.CustomTypesConfig["getTypeParser"],
});

/** PostgreSQL's name for what went wrong, or the system's. */
export function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}

/** Busy, deadlocked, cancelled, read-only, shutting down, out of room: nothing was written, and it may go through later. */
const passing = /^(40001|40P01|55P03|57014|57P03|25006|53\d\d\d|58\d\d\d|XX\d\d\d)$/;
/** The server ended the connection under the statement. */
const ended = /^(57P01|57P02|08\d\d\d)$/;
/**
 * Our tables are not there or not as we made them, or this role may not use them. It is not the fault of the data: what has to
 * be saved is tried until somebody has put it right.
 */
const misconfigured = /^(42501|42P01|42703|42883|42704|3F000)$/;

/** Converts a failed statement into the error that its sender acts on. A refusal of the data itself is returned as it is. */
export function explain(error: unknown, what: string): unknown {
  if (error instanceof OnceflowError) return error;
  const code = codeOf(error);
  const fromServer = error instanceof Error && "severity" in error;
  const why = fromServer ? `${code}: ${error.message}` : code;
  if (passing.test(code) || (fromServer && misconfigured.test(code)))
    return new UnreachableError(`[onceflow] [postgres] ${what} could not be done now (${why})`, error);
  // Whatever else is thrown while a statement is under way (a bug of ours, say) is not a lost connection.
  const lost = fromServer ? ended.test(code) : /^E[A-Z]+$/.test(code) || /connection|timeout|closed|socket/i.test(String(error));
  if (!lost) return error;
  return new NotKnownError(`[onceflow] [postgres] the connection was lost during ${what}; whether it was done is not known`, error);
}

/** The role or the schema is not as the store needs it. While a store is opened, waiting does not help then. */
export function isMisconfigured(error: unknown): boolean {
  return misconfigured.test(codeOf(error));
}

/**
 * Begins a transaction that holds our statements only. They lock before they read, which needs READ COMMITTED: at a
 * stricter default level of the database they would read what was there before the lock was granted.
 */
export const beginOurs = "BEGIN ISOLATION LEVEL READ COMMITTED";

const triesMax = 20;

/** Repeats a statement that stands alone while it cannot be serialized, or is the victim of a deadlock: nothing was written. */
export async function sentAgain<T>(send: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await send();
    } catch (error) {
      if (tries === triesMax || !/^(40001|40P01)$/.test(codeOf(error))) throw error;
      // Spread out, so that those who met do not meet again.
      await new Promise((again) => setTimeout(again, Math.random() * Math.min(2 ** tries, 50)));
    }
  }
}
