import { sleep } from "../core/clock.js";
import { NotKnownError, UnreachableError } from "../core/errors.js";
import type { AppendLate, RunAnswer, Send, StartRun } from "../core/run-operation.js";
import type { Store } from "../core/store.js";

const tryMsMax = 10_000;

export function sendMail(store: Store, mail: Omit<Send, "verb">): Promise<RunAnswer> {
  return sendSafely(store, { verb: "send", ...mail });
}

interface Patience {
  /** How long it is tried. Default 10 s. */
  readonly forMs?: number;
  /** It has failed so many times in a row, and is tried again. */
  readonly failed?: (times: number, error: unknown) => void;
}

/** Tries within a bound. The same operation again finds its own success, so trying again is always safe. */
export async function sendSafely(
  store: Store,
  operation: Send | StartRun | AppendLate,
  { forMs = tryMsMax, failed }: Patience = {},
): Promise<RunAnswer> {
  const until = store.clock.now() + forMs;
  let doubt: NotKnownError | undefined;
  for (let [times, backoffMs] = [1, 20]; ; times += 1, backoffMs = Math.min(backoffMs * 2, 1000)) {
    try {
      return await store.commit({ run: operation });
    } catch (error) {
      if (error instanceof NotKnownError) doubt = error;
      const passing = error instanceof NotKnownError || error instanceof UnreachableError;
      // Once a reply was lost, "nothing was written" would be a guess.
      if (!passing || store.closed || store.clock.now() + backoffMs > until) throw doubt ?? error;
      failed?.(times, error);
      await sleep(store.clock, backoffMs);
    }
  }
}
