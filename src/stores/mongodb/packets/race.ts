import { UnreachableError } from "../../../core/errors/errors.js";
import { isDuplicateKey } from "../errors.js";
import { Conflict } from "../transactions/in-transaction.js";

/** A document was inserted by another transaction since this one has looked for it: repeated, this one finds it. */
export async function orConflict<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw isDuplicateKey(error) ? new Conflict("a document exists by now", { cause: error }) : error;
  }
}

/** How long a change that a person asks for waits for other transactions. */
export const patient = { forMs: 5000 };

/** For a change that conflicted at every try. */
export function lostEveryRace(what: string): UnreachableError {
  return new UnreachableError(
    `[onceflow] [mongodb] ${what} was not done, because other transactions write the same documents: try again. (If a process has died ` +
      "inside a transaction, MongoDB ends that after transactionLifetimeLimitSeconds, a minute by default)",
  );
}
