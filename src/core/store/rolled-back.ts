import { NotApplied } from "../errors/errors.js";

/** SQLSTATE of a transaction that the database has rolled back because of others: it could not be serialized, or deadlocked. */
const codes: ReadonlySet<unknown> = new Set(["40001", "40P01"]);

/** Database layers wrap the driver's error: so many causes are looked through. */
const causesMax = 5;

/**
 * The error of a transaction that the database rolled back because of concurrent ones, as NotApplied: nothing of the
 * attempt was written, so it may be repeated whatever its effect class is. Undefined for every other error.
 */
export function rolledBack(error: unknown): NotApplied | undefined {
  let cause = error;
  for (let depth = 0; depth < causesMax && cause instanceof Error; depth++) {
    if (cause instanceof NotApplied) return undefined;
    if ("code" in cause && codes.has(cause.code)) {
      return new NotApplied(
        `the transaction was rolled back, and nothing of it was written: ${cause.message} (${String(cause.code)}). Try again. ` +
          "If it happens every time: at a stricter level than READ COMMITTED, a transaction has to be shorter than a third of the lease.",
        { cause: error },
      );
    }
    cause = cause.cause;
  }
  return undefined;
}
