import { InvalidInputError } from "../../errors/errors.js";
import type { Batch } from "../../ledger/operation.js";

const parts: readonly string[] = ["ledger", "run", "packet"];

/** Returns the batch if it has exactly one part, else an error. Two parts would have two answers. */
export function onlyPart(batch: Batch): Batch | InvalidInputError {
  const named = Object.keys(batch ?? {});
  if (named.length === 1 && parts.includes(named[0] ?? "")) return batch;
  const found = named.length === 0 ? "none" : named.join(" and ");
  return new InvalidInputError(
    "batch",
    `must have exactly one part (ledger, run or packet), but has ${found}; commit the operations one after the other`,
  );
}
