import { NotApplied } from "../errors/errors.js";

/** SQLSTATE of a transaction that the database rolled back because of concurrent ones: serialization failure or deadlock. */
const codes: ReadonlySet<unknown> = new Set(["40001", "40P01"]);

/** Database layers wrap the driver's error, so this many nested causes are searched. */
const causesMax = 5;

/**
 * If the database rolled a transaction back because of concurrent ones, returns its error as NotApplied: nothing of the
 * attempt was written, so it may be retried in every effect class. Undefined for every other error.
 */
export function rolledBack(error: unknown): NotApplied | undefined {
  let cause = error;
  for (let depth = 0; depth < causesMax && cause instanceof Error; depth++) {
    if (cause instanceof NotApplied) return undefined;
    if ("code" in cause && codes.has(cause.code)) {
      return new NotApplied(
        `the transaction was rolled back and wrote nothing: ${cause.message} (${String(cause.code)}). Retry it. ` +
          "If this happens every time: with an isolation level above READ COMMITTED, a transaction must be shorter than a third of the lease.",
        { cause: error },
      );
    }
    cause = cause.cause;
  }
  return undefined;
}
