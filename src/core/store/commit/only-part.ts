import { InvalidInputError } from "../../errors/errors.js";
import type { Batch } from "../../ledger/operation.js";

const parts: readonly string[] = ["ledger", "run", "packet"];

/** The batch if it has one part; else the error that says why nothing was written. Two parts would have two verdicts. */
export function onlyPart(batch: Batch): Batch | InvalidInputError {
  const named = Object.keys(batch ?? {});
  if (named.length === 1 && parts.includes(named[0] ?? "")) return batch;
  const found = named.length === 0 ? "none" : named.join(" and ");
  return new InvalidInputError(
    "batch",
    `must have one part, ledger, run or packet, and has ${found}; commit one operation after the other`,
  );
}
