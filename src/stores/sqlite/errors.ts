import { ConfigurationError, OnceflowError, UnreachableError } from "../../core/errors/errors.js";
import { dataRefused, setUpWrong } from "../../core/store/server-answer.js";

/** Primary result codes of SQLite: https://www.sqlite.org/rescode.html */
const code = {
  error: 1,
  busy: 5,
  locked: 6,
  readOnly: 8,
  corrupt: 11,
  full: 13,
  cannotOpen: 14,
  tooBig: 18,
  constraint: 19,
  mismatch: 20,
  misuse: 21,
  range: 25,
  notADatabase: 26,
};

/** The file was deleted or moved while it was open (SQLITE_READONLY_DBMOVED). */
const moved = 1032;

/** The value or the row is refused permanently. */
const refused: ReadonlySet<number> = new Set([code.tooBig, code.constraint, code.mismatch]);
/** This package has used SQLite wrongly: a bug. */
const bug: ReadonlySet<number> = new Set([code.misuse, code.range]);
/** A missing or altered table, or a file that is not a database (any more). */
const misconfigured: ReadonlySet<number> = new Set([code.error, code.corrupt, code.notADatabase]);

/** Whether another connection is writing. */
export function isBusy(error: unknown): boolean {
  const found = primaryCode(error);
  return found === code.busy || found === code.locked;
}

/** The result code without the details in its upper bits. Undefined for errors that are not SQLite's. */
function primaryCode(error: unknown): number | undefined {
  if (!(error instanceof Error) || !("errcode" in error) || typeof error.errcode !== "number") return undefined;
  return error.errcode & 0xff;
}

/**
 * Converts the error of a failed statement into an error of the store. Three result codes mean refused data; every other one concerns
 * the file and is retried. An error that is not SQLite's is returned unchanged.
 */
export function explain(error: unknown, path: string): unknown {
  const found = primaryCode(error);
  if (found === undefined || bug.has(found) || isBusy(error)) return error;
  const { errcode, message } = error as Error & { readonly errcode: number };
  const answer = { store: "sqlite", what: `writing "${path}"`, why: `${errcode}: ${message}`, cause: error };
  if (refused.has(found)) return dataRefused(answer);
  const why = `${errcode}: ${adviceOn(error as Error, found)}`;
  if (misconfigured.has(found) || errcode === moved) return setUpWrong({ ...answer, what: `using "${path}"`, why });
  return new UnreachableError(`[onceflow] [sqlite] "${path}" could not be used (${why})`, error, { answered: true });
}

/** The same while the store is opened: a file that is not a database is a configuration error. */
export function explainOpening(error: unknown, path: string): unknown {
  if (error instanceof OnceflowError) return error;
  const found = primaryCode(error);
  const message = `[onceflow] [sqlite] cannot open "${path}": ${adviceOn(error as Error, found)}`;
  if (found === code.notADatabase || found === code.corrupt || found === code.readOnly)
    return new ConfigurationError(message, { code: "STORE_NOT_USABLE", cause: error });
  return new UnreachableError(message, error);
}

function adviceOn({ message }: Error, found: number | undefined): string {
  switch (found) {
    case code.full:
      return `${message}. Free some space on its disk; nothing of this write was stored.`;
    case code.readOnly:
      return `${message}. Give this user permission to write the file and its folder, or mount the file system read-write.`;
    case code.corrupt:
      return `${message}. Restore it from a backup, together with its -wal file.`;
    case code.notADatabase:
      return `${message}. Choose another path, or move that file away.`;
    default:
      return `${message}. Does its folder exist, and may this user write there?`;
  }
}

/** SQLite keeps writing to a deleted file until its last connection is closed, and all of that would be lost. */
export function fileGone(path: string): ConfigurationError {
  return new ConfigurationError(
    `[onceflow] [sqlite] "${path}" was deleted or replaced while it was open; writes since then are lost. Close the store, restore the file from a backup, and open it again`,
    { code: "STORE_NOT_USABLE" },
  );
}
