import type pg from "pg";
import { ConfigurationError, isOwnMistake, NotKnownError, OnceflowError } from "../../core/errors/errors.js";
import { dataRefused, mayBeDone, notDoneNow, setUpWrong } from "../../core/store/server-answer.js";
import { type Backoff, backoffMs, fullJitter, jitteredMs } from "../../core/work/backoff.js";
import { sleep, systemClock } from "../../core/work/clock.js";

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

/** Data exception, constraint violation, program limit exceeded: the data itself is refused, and always will be. */
const refused = /^(22|23|54)/;
/**
 * Wrong password or role, no such database or schema, tables that are not there or not as we made them, a missing right. A
 * prepared statement that exists already (42P05) is a matter of the connection.
 */
const misconfigured = /^(28|3D|3F|42(?!P05))/;
/** The server ended the connection under the statement, or does not know how the statement ended. */
const ended = /^(08|57P0[1245]|40003)/;

/** Whether PostgreSQL itself said it: its errors have a severity. */
export function isFromServer(error: unknown): error is Error & { readonly severity: string } {
  return error instanceof Error && "severity" in error;
}

/**
 * Converts a failed statement into the error that its sender acts on. Three classes of answers refuse the data; every other
 * answer of the server is retried. What comes neither from the server nor from the connection (a bug of ours, say) is
 * returned as it is.
 */
export function explain(error: unknown, what: string): unknown {
  if (error instanceof OnceflowError) return error;
  const code = codeOf(error);
  if (isFromServer(error)) {
    const answer = { store: "postgres", what, why: `${code}: ${error.message}`, cause: error };
    if (refused.test(code)) return dataRefused(answer);
    if (misconfigured.test(code)) return setUpWrong(answer);
    return ended.test(code) || /^(FATAL|PANIC)$/.test(error.severity) ? mayBeDone(answer) : notDoneNow(answer);
  }
  const lost = /^E[A-Z]+$/.test(code) || (!isOwnMistake(error) && /connection|timeout|closed|socket/i.test(String(error)));
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
const conflictBackoff: Backoff = { minMs: 2, maxMs: 50 };

/** Repeats a statement that stands alone while it cannot be serialized, or is the victim of a deadlock: nothing was written. */
export async function sentAgain<T>(send: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await send();
    } catch (error) {
      if (tries === triesMax || !/^(40001|40P01)$/.test(codeOf(error))) throw error;
      // With jitter: two statements that collided would otherwise collide again.
      await sleep(systemClock, jitteredMs(backoffMs(conflictBackoff, tries), fullJitter, Math.random));
    }
  }
}
