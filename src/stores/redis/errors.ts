import { NotKnownError, OnceflowError, UnreachableError } from "../../core/errors.js";

/** Busy, loading, out of room, on the move, not the master: nothing was written, and it may go through later. */
const passing =
  /^(LOADING|BUSY|TRYAGAIN|CLUSTERDOWN|MASTERDOWN|READONLY|OOM|NOREPLICAS|MISCONF|MOVED|ASK|NOAUTH|NOPERM|WRONGPASS|UNBLOCKED) /;
/** This server is no longer the one to ask: look again who is. */
const elsewhere = /^(READONLY|CLUSTERDOWN|MASTERDOWN|MOVED|ASK|NOREPLICAS) /;
/** The data itself is refused, and always will be. */
const refused = /^WRONGTYPE |string exceeds maximum allowed size/;
/** The driver had no connection, and kept the command to itself. */
const notSent = /^The client is (offline|closed)|Stream isn't writeable/;

/** What a server answered begins with a word in capitals; whatever else goes wrong is the connection's. */
function isReply(error: unknown): boolean {
  return error instanceof Error && /^[A-Z]{2,} /.test(error.message);
}

/** What a failed command means to whoever sent it. Refusals of the data itself pass through as they are. */
export function explain(error: unknown, what: string): unknown {
  if (error instanceof OnceflowError) return error;
  const message = error instanceof Error ? error.message : String(error);
  if (refused.test(message)) return error;
  if (passing.test(message) || notSent.test(message))
    return new UnreachableError(`[onceflow] [redis] ${what} could not be done now (${message.slice(0, 200)})`, error);
  if (isReply(error))
    return new NotKnownError(
      `[onceflow] [redis] ${what} ended in the middle; whether it was done is not known: ${message.slice(0, 200)}`,
      error,
    );
  return new NotKnownError(`[onceflow] [redis] the connection was lost during ${what}; whether it was done is not known`, error);
}

/** Whether the next command needs another connection. */
export function breaksLink(error: unknown): boolean {
  return isReply(error) ? elsewhere.test((error as Error).message) : true;
}
