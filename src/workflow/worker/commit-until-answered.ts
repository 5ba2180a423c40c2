import { OnceflowError, StoreRefusedError } from "../../core/errors/errors.js";
import type { RunAnswer, RunOperation } from "../../core/runs/operation.js";
import type { Store } from "../../core/store/store.js";
import { afterEffect, beforeEffect, failedOnce } from "../../core/work/until-answered.js";
import type { Refusal } from "../journal/writer/departure.js";

interface Committing {
  /** False if the commit is not wanted any more. */
  readonly wanted: () => boolean;
  readonly answered: (operation: RunOperation, answer: RunAnswer) => void;
  /** Called if the operation cannot be written in this process, for a reason other than its data. */
  readonly gaveUp: (operation: RunOperation, error: unknown) => void;
}

/**
 * Repeats an operation until the store answers or rejects its data. Repeating is safe: an operation whose reply was lost finds
 * its own success. The start of a run, which comes before all its effects, is repeated for at most 10 s.
 */
export async function commitUntilAnswered(
  store: Store,
  operation: RunOperation,
  committing: Committing,
): Promise<RunAnswer | Refusal | undefined> {
  try {
    // The common case. The retries would cost several more promises at every commit.
    const answer = await store.commit({ run: operation });
    committing.answered(operation, answer);
    return answer;
  } catch (error) {
    return await commitAgain(store, operation, error, committing);
  }
}

/** The first try has failed with `firstError`. */
async function commitAgain(
  store: Store,
  operation: RunOperation,
  firstError: unknown,
  { wanted, answered, gaveUp }: Committing,
): Promise<RunAnswer | Refusal | undefined> {
  const write = failedOnce(firstError, () => store.commit({ run: operation }));
  try {
    const answer = await (operation.verb === "start"
      ? beforeEffect(store, write, { wanted })
      : afterEffect(store, write, { what: `an entry of run "${"id" in operation ? operation.id : ""}"`, wanted }));
    answered(operation, answer);
    return answer;
  } catch (error) {
    if (!wanted()) return undefined;
    // A bug of this package would recur at every try: the run fails with it, instead of being repeated by the next owner.
    const refused = error instanceof StoreRefusedError || !(error instanceof OnceflowError);
    if (refused && !store.closed) return { kind: "refused", error };
    return void gaveUp(operation, error);
  }
}
