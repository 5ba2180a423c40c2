import { NotKnownError, OnceflowError, UnreachableError } from "../../core/errors/errors.js";
import { dataRefused, mayBeDone, notDoneNow, setUpWrong } from "../../core/store/server-answer.js";

/** MongoDB's number for what went wrong. */
export function codeOf(error: unknown): number {
  return error instanceof Error && "code" in error && typeof error.code === "number" ? error.code : 0;
}

export const isDuplicateKey = (error: unknown): boolean => codeOf(error) === 11000;

/** By what they carry and not by their class: a client of the user's own may come from another copy of the driver. */
export function hasLabel(error: unknown, label: string): boolean {
  if (!(error instanceof Error) || !("hasErrorLabel" in error) || typeof error.hasErrorLabel !== "function") return false;
  return error.hasErrorLabel(label) === true;
}

/** Nothing was sent: no server that could take it, no connection in time, or the client is closed. */
const unsent = /^Mongo(ServerSelection|WaitQueueTimeout|NotConnected|TopologyClosed|ClientClosed|PoolClosed|ServerClosed)Error$/;
/** It was sent, and no answer came. A pool that was cleared takes the connections in use with it. */
const unanswered = /^Mongo(Network\w*|PoolCleared\w*|OperationTimeout)Error$/;
/** DocumentValidationFailure, BSONObjectTooLarge, DuplicateKey, and documents or keys that are too long: the data itself is refused. */
const refused = new Set([121, 10334, 11000, 11001, 12582, 17280, 17419, 17420]);
/** An insert that is too long is a BadValue, as many other things are. */
const tooLarge = /too large|larger than/i;
/** UserNotFound, Unauthorized, AuthenticationFailed, IllegalOperation, RoleNotFound, CommandNotFound, InvalidNamespace, CommandNotSupported. */
const misconfigured = new Set([11, 13, 18, 20, 31, 59, 73, 115, 166]);
/**
 * LockTimeout, WriteConflict, FailedToSatisfyReadPreference, ReadConcernMajorityNotAvailableYet, SnapshotUnavailable,
 * IngressRequestRateLimitExceeded, NotWritablePrimary and its kin, StaleConfig, OutOfDiskSpace: nothing was written, and it may
 * go through later.
 */
const passing = new Set([24, 63, 112, 133, 134, 150, 246, 462, 10107, 13388, 13435, 13436, 14031]);
/** The server fell or stepped down under the command, or its time was over: it may have been written. */
const interrupted = new Set([6, 7, 50, 64, 89, 91, 100, 189, 202, 217, 262, 8000, 9001, 11600, 11601, 11602]);

/** Whether the server itself said it: its errors have a number, or its name for them. */
function isFromServer(error: Error): boolean {
  return codeOf(error) !== 0 || /^Mongo(Server|WriteConcern|BulkWrite)Error$/.test(error.name);
}

/** An answer that is known to be a passing one. Only while a store is opened: later every answer is, but for the short list. */
export function isKnownToPass(error: unknown): boolean {
  const code = codeOf(error);
  return (
    passing.has(code) || interrupted.has(code) || hasLabel(error, "RetryableWriteError") || hasLabel(error, "TransientTransactionError")
  );
}

/**
 * Converts a failed command into the error that its sender acts on. A short list of answers refuses the data; every other
 * answer of the server is retried. What comes neither from the server nor from the connection is returned as it is.
 */
export function explain(error: unknown, what: string): unknown {
  if (error instanceof OnceflowError || !(error instanceof Error)) return error;
  const code = codeOf(error);
  if (isFromServer(error)) {
    const answer = { store: "mongodb", what, why: `${code}: ${error.message}`, cause: error };
    if (refused.has(code) || (code === 2 && tooLarge.test(error.message))) return dataRefused(answer);
    if (misconfigured.has(code)) return setUpWrong(answer);
    // What is not committed yet leaves nothing behind.
    const undone = hasLabel(error, "TransientTransactionError") && !hasLabel(error, "UnknownTransactionCommitResult");
    return passing.has(code) || undone ? notDoneNow(answer) : mayBeDone(answer);
  }
  if (unsent.test(error.name)) return new UnreachableError(`[onceflow] [mongodb] ${what} could not be done now (${error.message})`, error);
  const lost = unanswered.test(error.name) || isKnownToPass(error) || hasLabel(error, "UnknownTransactionCommitResult");
  if (!lost) return error;
  return new NotKnownError(`[onceflow] [mongodb] no answer came to ${what}; whether it was done is not known`, error);
}
