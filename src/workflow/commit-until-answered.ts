import { sleep } from "../core/clock.js";
import { NotKnownError, StoreRefusedError, UnreachableError } from "../core/errors.js";
import type { RunAnswer, RunOperation } from "../core/run-operation.js";
import type { Store } from "../core/store.js";
import type { Refusal } from "./host.js";

const backoffMsMax = 1000;

interface Committing {
  /** False: it is of no use any more. */
  readonly wanted: () => boolean;
  readonly answered: (operation: RunOperation, answer: RunAnswer) => void;
  /** It cannot be written in this process, for a reason that is not its data. */
  readonly gaveUp: (operation: RunOperation, error: unknown) => void;
  /** It has failed so many times in a row, and is tried again. */
  readonly failed: (operation: RunOperation, times: number, error: unknown) => void;
}

/** The same operation until it is answered or refused for its data: a lost reply finds its own success. */
export async function commitUntilAnswered(
  store: Store,
  operation: RunOperation,
  { wanted, answered, gaveUp, failed }: Committing,
): Promise<RunAnswer | Refusal | undefined> {
  for (let [times, backoffMs] = [1, 20]; ; times += 1, backoffMs = Math.min(backoffMs * 2, backoffMsMax)) {
    try {
      const answer = await store.commit({ run: operation });
      answered(operation, answer);
      return answer;
    } catch (error) {
      if (!wanted()) return undefined;
      const passing = error instanceof UnreachableError || error instanceof NotKnownError;
      if (error instanceof StoreRefusedError && !store.closed) return { kind: "refused", error };
      if (!passing || store.closed) return void gaveUp(operation, error);
      failed(operation, times, error);
      await sleep(store.clock, backoffMs);
      if (!wanted()) return undefined;
    }
  }
}
