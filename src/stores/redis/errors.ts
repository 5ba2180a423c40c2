import { isBug, NotKnownError, OnceflowError, UnreachableError } from "../../core/errors/errors.js";
import { dataRefused, mayBeDone, notDoneNow, setUpWrong } from "../../core/store/server-answer.js";

/** The data itself is refused, and always will be. */
const refused = /^WRONGTYPE |string exceeds maximum allowed size/;
/** A wrong password, a missing right, a server that lacks a command of ours. */
const misconfigured = /^(NOAUTH|NOPERM|WRONGPASS) |^ERR unknown command/;
/** Busy, loading, out of room, on the move, not the master: nothing was written, and it may go through later. */
const passing = /^(LOADING|BUSY|TRYAGAIN|CLUSTERDOWN|MASTERDOWN|READONLY|OOM|NOREPLICAS|MISCONF|MOVED|ASK|UNBLOCKED) /;
/** The state of this server, or a value: another connection to it gets the same answer. */
const keepsLink = /^(LOADING|BUSY|TRYAGAIN|OOM|MISCONF|NOPERM|NOSCRIPT|WRONGTYPE) |string exceeds maximum allowed size/;
/** The driver had no connection, and kept the command to itself. */
const notSent = /^The client is (offline|closed)|Stream isn't writeable/;

/** What a server answered begins with a word in capitals; whatever else goes wrong is the connection's. */
function isReply(error: unknown): boolean {
  return error instanceof Error && /^[A-Z]{2,} /.test(error.message);
}

/**
 * Converts a failed command into the error that its sender acts on. A short list of replies refuses the data; every other
 * reply is retried. A bug of our own is returned as it is.
 */
export function explain(error: unknown, what: string): unknown {
  if (error instanceof OnceflowError) return error;
  const message = error instanceof Error ? error.message : String(error);
  const reply = { store: "redis", what, why: message.slice(0, 200), cause: error };
  if (refused.test(message)) return dataRefused(reply);
  if (misconfigured.test(message)) return setUpWrong(reply);
  if (passing.test(message)) return notDoneNow(reply);
  if (isReply(error)) return mayBeDone(reply);
  if (isBug(error)) return error;
  if (notSent.test(message)) return new UnreachableError(`[onceflow] [redis] ${what} could not be done now (${reply.why})`, error);
  return new NotKnownError(`[onceflow] [redis] the connection was lost during ${what}; whether it was done is not known`, error);
}

/** Whether the next command needs another connection. */
export function breaksLink(error: unknown): boolean {
  return !(isReply(error) && keepsLink.test((error as Error).message));
}
