import { ConfigurationError, NotKnownError, StoreRefusedError, UnreachableError } from "../errors/errors.js";

/** One answer of a database that is an error, and the write that it answers. */
export interface ServerAnswer {
  /** As in the messages: `postgres`. */
  readonly store: string;
  /** The write: `a flush`. */
  readonly what: string;
  /** The server's code and message. */
  readonly why: string;
  readonly cause: unknown;
}

/** The server never takes this data. Each store has a short list of answers that mean this; every other answer is retried. */
export function dataRefused({ store, why, cause }: ServerAnswer): StoreRefusedError {
  return new StoreRefusedError(`[onceflow] [${store}] the store refused this write: ${why}`, cause);
}

/** The role, the tables or the database are not as the store needs them: before an effect it is reported at once, after one it is retried. */
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

/** The server stopped in the middle: the same write again finds out whether it was done. */
export function mayBeDone({ store, what, why, cause }: ServerAnswer): NotKnownError {
  return new NotKnownError(`[onceflow] [${store}] ${what} was interrupted; whether it was done is not known (${why})`, cause, {
    answered: true,
  });
}
