import { isBug, NotKnownError, OnceflowError, UnreachableError } from "../../core/errors/errors.js";
import { dataRefused, mayBeDone, notDoneNow, setUpWrong } from "../../core/store/server-answer.js";

/** The data is refused permanently. */
const refused = /^WRONGTYPE |string exceeds maximum allowed size/;
/** A wrong password, a missing permission, or a server that lacks a command. */
const misconfigured = /^(NOAUTH|NOPERM|WRONGPASS) |^ERR unknown command/;
/** Busy, loading, out of memory, moving a slot, not the master: nothing was written, and the command may succeed later. */
const passing = /^(LOADING|BUSY|TRYAGAIN|CLUSTERDOWN|MASTERDOWN|READONLY|OOM|NOREPLICAS|MISCONF|MOVED|ASK|UNBLOCKED) /;
/** Caused by the state of the server or by a value: another connection would get the same error. */
const keepsLink = /^(LOADING|BUSY|TRYAGAIN|OOM|MISCONF|NOPERM|NOSCRIPT|WRONGTYPE) |string exceeds maximum allowed size/;
/** The driver had no connection and did not send the command. */
const notSent = /^The client is (offline|closed)|Stream isn't writeable/;

/** An error that the server answered begins with a word in capitals; any other error comes from the connection. */
function isReply(error: unknown): boolean {
  return error instanceof Error && /^[A-Z]{2,} /.test(error.message);
}

/**
 * Converts the error of a failed command into an error of the store. A short list of replies means refused data; every other
 * reply is retried. A bug is returned unchanged.
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
  return new NotKnownError(`[onceflow] [redis] the connection was lost during ${what}; it may or may not have been applied`, error);
}

/** Whether the next command needs a new connection. */
export function breaksLink(error: unknown): boolean {
  return !(isReply(error) && keepsLink.test((error as Error).message));
}
