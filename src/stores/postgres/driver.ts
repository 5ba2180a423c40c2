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

/** Busy, deadlocked, shutting down, out of room: nothing was written, and it may go through later. */
const passing = /^(40001|40P01|55P03|57P03|53\d\d\d)$/;
/** The server ended the connection under the statement. */
const ended = /^(57P01|57P02|08\d\d\d)$/;

/** What a failed statement means to whoever sent it. Refusals of the data itself pass through as they are. */
export function explain(error: unknown, what: string): unknown {
  if (error instanceof OnceflowError) return error;
  const code = codeOf(error);
  if (passing.test(code)) return new UnreachableError(`[onceflow] [postgres] ${what} could not be done now (${code})`, error);
  const fromServer = error instanceof Error && "severity" in error;
  // Whatever else is thrown while a statement is under way (a bug of ours, say) is not a lost connection.
  const lost = fromServer ? ended.test(code) : /^E[A-Z]+$/.test(code) || /connection|timeout|closed|socket/i.test(String(error));
  if (!lost) return error;
  return new NotKnownError(`[onceflow] [postgres] the connection was lost during ${what}; whether it was done is not known`, error);
}
