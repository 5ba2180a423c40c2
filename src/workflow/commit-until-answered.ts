import { sleep } from "../core/clock.js";
import { NotKnownError, UnreachableError } from "../core/errors.js";
import type { RunAnswer, RunOperation } from "../core/run-operation.js";
import type { Store } from "../core/store.js";

const backoffMsMax = 1000;

interface Committing {
  /** False: it is of no use any more. */
  readonly wanted: () => boolean;
  readonly answered: (operation: RunOperation, answer: RunAnswer) => void;
  /** The store will not take it, whatever we do. */
  readonly refused: (operation: RunOperation, error: unknown) => void;
}

/** The same operation until it is answered: a lost reply finds its own success. */
export async function commitUntilAnswered(
  store: Store,
  operation: RunOperation,
  { wanted, answered, refused }: Committing,
): Promise<RunAnswer | undefined> {
  for (let backoffMs = 20; ; backoffMs = Math.min(backoffMs * 2, backoffMsMax)) {
    try {
      const answer = await store.commit({ run: operation });
      answered(operation, answer);
      return answer;
    } catch (error) {
      if (!wanted()) return undefined;
      const passing = error instanceof UnreachableError || error instanceof NotKnownError;
      if (!passing || store.closed) return void refused(operation, error);
      await sleep(store.clock, backoffMs);
      if (!wanted()) return undefined;
    }
  }
}
