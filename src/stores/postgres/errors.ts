import { isBug, NotKnownError, OnceflowError } from "../../core/errors/errors.js";
import { dataRefused, mayBeDone, notDoneNow, setUpWrong } from "../../core/store/server-answer.js";

/** PostgreSQL's error code (SQLSTATE), or that of the system. */
export function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}

/** Data exception, constraint violation, program limit exceeded: the data is refused permanently. */
const refused = /^(22|23|54)/;
/**
 * Wrong password or role, unknown database or schema, missing or altered tables, a missing permission. Not a
 * prepared statement that already exists (42P05), which concerns the connection.
 */
const misconfigured = /^(28|3D|3F|42(?!P05))/;
/** The server closed the connection during the statement, or does not know how the statement ended. */
const ended = /^(08|57P0[1245]|40003)/;

/** Whether the server answered with this error: its errors have a severity. */
export function isFromServer(error: unknown): error is Error & { readonly severity: string } {
  return error instanceof Error && "severity" in error;
}

/**
 * Converts the error of a failed statement into an error of the store. Three classes of errors mean refused data; every other
 * error of the server is retried. An error that comes neither from the server nor from the connection (a bug) is
 * returned unchanged.
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
  const lost = /^E[A-Z]+$/.test(code) || (!isBug(error) && /connection|timeout|closed|socket/i.test(String(error)));
  if (!lost) return error;
  return new NotKnownError(`[onceflow] [postgres] the connection was lost during ${what}; it may or may not have been applied`, error);
}

/** Whether the role or the schema is not as the store needs it. While a store is opened, waiting does not help then. */
export function isMisconfigured(error: unknown): boolean {
  return misconfigured.test(codeOf(error));
}
