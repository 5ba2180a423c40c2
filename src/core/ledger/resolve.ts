import { InvalidInputError, NotUnknownError } from "../errors/errors.js";
import { requireStore } from "../store/require-store.js";
import type { Store } from "../store/store.js";
import { encodeError } from "../values/stored-error.js";
import { checkRef, idOf, type KeyRef, whole } from "./key-ref.js";
import type { Resolve } from "./operation.js";
import { newOwner } from "./owner.js";
import { saveOutcome } from "./save.js";
import { encodeResult } from "./settlement.js";

/** The outcome that {@link resolve} records. */
export type Resolution =
  /** The effect happened, with this result: replays return it. */
  | { readonly completed: unknown }
  /** The operation failed for good: replays throw this error. */
  | { readonly failed: unknown }
  /** The effect did not happen: the key is free, and the next call runs the operation. */
  | "notApplied";

/**
 * Settles an unknown outcome by hand, after a person or a job has checked the external system. `ref.attempt` is the attempt that was
 * checked; after this call, a late write of that attempt is refused.
 *
 * @throws NotUnknownError if the outcome of that attempt is not unknown; InvalidInputError if an argument is not valid.
 * @example
 * await resolve(store, { key: "charge:order-1", attempt: 1 }, { completed: { chargeId: "ch_1" } });
 */
export async function resolve(store: Store, ref: KeyRef & { readonly attempt: number }, outcome: Resolution): Promise<void> {
  requireStore(store);
  checkRef("resolve", ref);
  const id = idOf(ref);
  whole("attempt", ref.attempt, 1, Number.MAX_SAFE_INTEGER);
  const to = await settlementOf(store, outcome);
  const operation: Resolve = { verb: "resolve", ...id, owner: newOwner(), attempt: ref.attempt, to, note: "by hand" };
  const answer = await saveOutcome(store, operation);
  if (answer.kind === "settled") return;
  const record = answer.kind === "stale" ? answer.record : undefined;
  const found = record === undefined ? "no record was found" : `the record is ${record.state}, at attempt ${record.attempt}`;
  throw new NotUnknownError({ ...id, attempt: ref.attempt }, found);
}

async function settlementOf(store: Store, outcome: Resolution): Promise<Resolve["to"]> {
  if (outcome === "notApplied") return { state: "free" };
  if (typeof outcome === "object" && outcome !== null) {
    if ("completed" in outcome) return { state: "completed", outcome: await encodeResult(store, outcome.completed) };
    if ("failed" in outcome) return { state: "failed", outcome: encodeError(outcome.failed) };
  }
  throw new InvalidInputError("outcome", 'must be { completed: value }, { failed: error } or "notApplied"');
}
