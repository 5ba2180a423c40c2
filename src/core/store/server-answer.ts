import { ConfigurationError, NotKnownError, StoreRefusedError, UnreachableError } from "../errors/errors.js";

/** An error that a database answered, and the write that it answers. */
export interface ServerAnswer {
  /** As in the messages: `postgres`. */
  readonly store: string;
  /** The write: `a flush`. */
  readonly what: string;
  /** The server's code and message. */
  readonly why: string;
  readonly cause: unknown;
}

/** The server never accepts this data. Each store has a short list of errors that mean this; every other error is retried. */
export function dataRefused({ store, why, cause }: ServerAnswer): StoreRefusedError {
  return new StoreRefusedError(`[onceflow] [${store}] the store refused this write: ${why}`, cause);
}

/**
 * The role, the tables or the database are not as the store needs them. A write before an effect fails with it at once; a write
 * after an effect is retried.
 */
export function setUpWrong({ store, what, why, cause }: ServerAnswer): ConfigurationError {
  return new ConfigurationError(`[onceflow] [${store}] ${what} is not possible with this set-up: ${why}`, {
    code: "STORE_NOT_USABLE",
    cause,
  });
}

/** Nothing was written, and the same write may succeed later. */
export function notDoneNow({ store, what, why, cause }: ServerAnswer): UnreachableError {
  return new UnreachableError(`[onceflow] [${store}] ${what} could not be done now (${why})`, cause, { answered: true });
}

/** The server stopped in the middle of the write: sending the same write again finds out whether it was applied. */
export function mayBeDone({ store, what, why, cause }: ServerAnswer): NotKnownError {
  return new NotKnownError(`[onceflow] [${store}] ${what} was interrupted; it may or may not have been applied (${why})`, cause, {
    answered: true,
  });
}
