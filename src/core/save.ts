import { sleep } from "./clock.js";
import { NotKnownError, NotSavedError, StoreRefusedError, UnreachableError } from "./errors.js";
import type { Answer, Begin, Operation, Renew, Resolve, Settle, Settlement } from "./operation.js";
import type { Store } from "./store.js";
import { shortError } from "./stored-error.js";

const backoffMsMin = 20;
const backoffMsMax = 1000;
/** How long a begin is tried against a store that cannot be reached. Nothing has happened yet: giving up is safe. */
const beginMsMax = 10_000;
/** How long a caller who has already aborted still waits for the outcome to be saved. */
const abortedMsMax = 10_000;

/** The same begin until it is answered: a lost reply finds its own success, because the owner is the same. */
export function sendBegin(store: Store, begin: Begin, signal?: AbortSignal): Promise<Answer> {
  return send(store, begin, store.clock.now() + beginMsMax, signal);
}

/** How far an attempt got. Tried until it is answered, or until the signal says that the attempt is over. */
export function saveProgress(store: Store, renew: Renew, signal: AbortSignal): Promise<Answer> {
  return send(store, renew, Number.POSITIVE_INFINITY, signal);
}

/**
 * A failed save is not a failed operation: the effect has happened, so the save is tried until it is in the store
 * or fenced. A caller whose signal aborts stops waiting for it; the saving goes on without them.
 */
export function saveOutcome(store: Store, settle: Settle | Resolve, signal?: AbortSignal): Promise<Answer> {
  const saving = save(store, settle);
  if (signal === undefined) return saving;
  return new Promise((resolve, reject) => {
    const leave = () => reject(new NotSavedError(settle, signal.reason));
    // An abort that came before the handler ended was the handler's to answer; the save still gets its chance.
    const cancel = signal.aborted ? store.clock.after(abortedMsMax, leave) : () => {};
    signal.addEventListener("abort", leave, { once: true });
    const end = () => {
      cancel();
      signal.removeEventListener("abort", leave);
    };
    saving.then(resolve, reject).finally(end);
  });
}

async function save(store: Store, settle: Settle | Resolve): Promise<Answer> {
  try {
    return await send(store, settle, Number.POSITIVE_INFINITY);
  } catch (error) {
    // The store will not take this value, ever. The key is settled all the same: it must not reopen for that.
    const to = error instanceof StoreRefusedError ? shorter(settle.to) : undefined;
    if (to === undefined) throw error;
    return await send(store, { ...settle, to }, Number.POSITIVE_INFINITY);
  }
}

/** The same settlement without what may have been too much. Undefined: nothing can be left out. */
function shorter(to: Settlement): Resolve["to"] | undefined {
  if (to.state === "completed") return to.outcome === null ? undefined : { state: "completed", outcome: null };
  if (to.state !== "failed") return undefined;
  const outcome = shortError(to.outcome);
  return outcome.length < to.outcome.length ? { state: "failed", outcome } : undefined;
}

function send(store: Store, operation: Operation, until: number, signal?: AbortSignal): Promise<Answer> {
  return untilAnswered(store, () => store.commit({ ledger: operation }), until, signal);
}

/** The same write again, as long as the store cannot be reached or its reply was lost. */
export async function untilAnswered<T>(store: Store, write: () => Promise<T>, until: number, signal?: AbortSignal): Promise<T> {
  let doubt: NotKnownError | undefined;
  for (let backoffMs = backoffMsMin; ; backoffMs = Math.min(backoffMs * 2, backoffMsMax)) {
    try {
      return await write();
    } catch (error) {
      if (error instanceof NotKnownError) doubt = error;
      const passing = error instanceof NotKnownError || error instanceof UnreachableError;
      // Once a reply was lost, "nothing was written" would be a guess.
      if (!passing || store.closed || store.clock.now() + backoffMs > until) throw doubt ?? error;
      await sleep(store.clock, backoffMs, signal);
    }
  }
}
