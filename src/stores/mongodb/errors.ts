import { NotKnownError, OnceflowError, UnreachableError } from "../../core/errors/errors.js";
import { dataRefused, mayBeDone, notDoneNow, setUpWrong } from "../../core/store/server-answer.js";

/** MongoDB's error code, or 0. */
export function codeOf(error: unknown): number {
  return error instanceof Error && "code" in error && typeof error.code === "number" ? error.code : 0;
}

export const isDuplicateKey = (error: unknown): boolean => codeOf(error) === 11000;

/** By its members, not by its class: the user's client may come from another copy of the driver. */
export function hasLabel(error: unknown, label: string): boolean {
  if (!(error instanceof Error) || !("hasErrorLabel" in error) || typeof error.hasErrorLabel !== "function") return false;
  return error.hasErrorLabel(label) === true;
}

/** Nothing was sent: no suitable server, no connection in time, or the client is closed. */
const unsent = /^Mongo(ServerSelection|WaitQueueTimeout|NotConnected|TopologyClosed|ClientClosed|PoolClosed|ServerClosed)Error$/;
/** The command was sent, but not answered. (Clearing a pool also closes connections in use.) */
const unanswered = /^Mongo(Network\w*|PoolCleared\w*|OperationTimeout)Error$/;
/**
 * DocumentValidationFailure, BSONObjectTooLarge, DuplicateKey, and documents or keys that are too long: the data is refused
 * permanently.
 */
const refused = new Set([121, 10334, 11000, 11001, 12582, 17280, 17419, 17420]);
/** The code of a document that is too large is BadValue, which has other causes too, so the message decides. */
const tooLarge = /too large|larger than/i;
/**
 * UserNotFound, Unauthorized, AuthenticationFailed, IllegalOperation, RoleNotFound, CommandNotFound, InvalidNamespace,
 * CommandNotSupported.
 */
const misconfigured = new Set([11, 13, 18, 20, 31, 59, 73, 115, 166]);
/**
 * LockTimeout, WriteConflict, FailedToSatisfyReadPreference, ReadConcernMajorityNotAvailableYet, SnapshotUnavailable,
 * IngressRequestRateLimitExceeded, NotWritablePrimary and similar, StaleConfig, OutOfDiskSpace: nothing was written, and the
 * command may succeed later.
 */
const passing = new Set([24, 63, 112, 133, 134, 150, 246, 462, 10107, 13388, 13435, 13436, 14031]);
/** The server stopped or stepped down during the command, or its time limit was exceeded: it may have been applied. */
const interrupted = new Set([6, 7, 50, 64, 89, 91, 100, 189, 202, 217, 262, 8000, 9001, 11600, 11601, 11602]);

/** Whether the server answered with this error: its errors have a code, or one of these names. */
function isFromServer(error: Error): boolean {
  return codeOf(error) !== 0 || /^Mongo(Server|WriteConcern|BulkWrite)Error$/.test(error.name);
}

/** Whether an error is known to be temporary. Used while a store is opened; later every error counts as temporary except a short list. */
export function isKnownToPass(error: unknown): boolean {
  const code = codeOf(error);
  return (
    passing.has(code) || interrupted.has(code) || hasLabel(error, "RetryableWriteError") || hasLabel(error, "TransientTransactionError")
  );
}

/**
 * Converts the error of a failed command into an error of the store. A short list of answers means refused data; every other
 * answer of the server is retried. An error that comes neither from the server nor from the connection is returned unchanged.
 */
export function explain(error: unknown, what: string): unknown {
  if (error instanceof OnceflowError || !(error instanceof Error)) return error;
  const code = codeOf(error);
  if (isFromServer(error)) {
    const answer = { store: "mongodb", what, why: `${code}: ${error.message}`, cause: error };
    if (refused.has(code) || (code === 2 && tooLarge.test(error.message))) return dataRefused(answer);
    if (misconfigured.has(code)) return setUpWrong(answer);
    // A transaction that was not committed has written nothing.
    const undone = hasLabel(error, "TransientTransactionError") && !hasLabel(error, "UnknownTransactionCommitResult");
    return passing.has(code) || undone ? notDoneNow(answer) : mayBeDone(answer);
  }
  if (unsent.test(error.name)) return new UnreachableError(`[onceflow] [mongodb] ${what} could not be done now (${error.message})`, error);
  const lost = unanswered.test(error.name) || isKnownToPass(error) || hasLabel(error, "UnknownTransactionCommitResult");
  if (!lost) return error;
  return new NotKnownError(`[onceflow] [mongodb] no answer came to ${what}; it may or may not have been applied`, error);
}
