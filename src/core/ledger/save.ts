import { NotSavedError, StoreRefusedError } from "../errors/errors.js";
import type { Store } from "../store/store.js";
import { shortError } from "../values/stored-error.js";
import { afterEffect, beforeEffect } from "../work/until-answered.js";
import type { Answer, Begin, Renew, Resolve, Settle, Settlement } from "./operation.js";

/** How long a caller waits for the outcome to be saved while the store fails. */
const callerMsMax = 60_000;
/** How long a caller whose signal has already aborted still waits for the outcome to be saved. */
const abortedMsMax = 10_000;

/**
 * Sends the same begin until it is answered: after a lost reply it finds its own success, because the owner is the same. The
 * lease counts from the first try. If that was a while ago, the lease may have expired, so it is renewed before the handler runs.
 */
export async function sendBegin(store: Store, begin: Begin, signal?: AbortSignal): Promise<Answer> {
  const { scope, key, owner, leaseMs } = begin;
  const renewAt = store.clock.now() + leaseMs / 3;
  const answer = await beforeEffect(store, () => store.commit({ ledger: begin }), { signal });
  if (answer.kind !== "started" || store.clock.now() < renewAt) return answer;
  const renew: Renew = { verb: "renew", scope, key, owner, attempt: answer.attempt, leaseMs };
  let isOurs = false;
  try {
    isOurs = (await beforeEffect(store, () => store.commit({ ledger: renew }), { signal })).kind === "renewed";
  } finally {
    if (!isOurs) store.release(owner, begin);
  }
  return isOurs ? answer : await sendBegin(store, begin, signal);
}

interface SavingProgress {
  /** Aborts when the attempt is over. */
  readonly signal: AbortSignal;
  /** Called when the store has failed for a minute: the caller gets this error, and saving continues. */
  readonly late: (error: NotSavedError) => void;
}

/** Saves the progress of an attempt. Retried until the store answers or the attempt is over. */
export async function saveProgress(store: Store, renew: Renew, { signal, late }: SavingProgress): Promise<Answer> {
  const wait = new CallersWait(store, (error) => late(new NotSavedError(renew, error)));
  try {
    const what = `the progress of ${nameOf(renew)}`;
    return await afterEffect(store, () => store.commit({ ledger: renew }), { what, signal, failed: wait.failed });
  } finally {
    wait.end();
  }
}

/**
 * Saves the outcome of an attempt. A failed save is not a failed operation: the effect has happened, so the save is retried until
 * the store has it or refuses it as stale. The caller stops waiting when its signal aborts, or after a minute of failures;
 * saving continues in the background.
 */
export function saveOutcome(store: Store, settle: Settle | Resolve, signal?: AbortSignal): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const wait = new CallersWait(store, (error) => reject(new NotSavedError(settle, error)));
    const leave = () => reject(new NotSavedError(settle, signal?.reason));
    // The signal aborted while the handler still ran, and the handler could react to it. The save still gets some time.
    const cancel = signal?.aborted ? store.clock.after(abortedMsMax, leave) : undefined;
    signal?.addEventListener("abort", leave, { once: true });
    const end = () => {
      wait.end();
      cancel?.();
      signal?.removeEventListener("abort", leave);
    };
    const saved = (answer: Answer) => {
      end();
      resolve(answer);
    };
    const fail = (error: unknown) => {
      end();
      // The store was closed meanwhile. UnreachableError would claim that nothing has happened.
      reject(settle.verb === "settle" && store.closed ? new NotSavedError(settle, error) : error);
    };
    save(store, settle, wait.failed).then(saved, fail);
  });
}

/** Ends a caller's wait when the store has failed for a minute. It starts no timer before the first failure. */
class CallersWait {
  readonly #store: Store;
  readonly #over: (error: unknown) => void;
  readonly #startedAt: number;
  #error: unknown;
  #cancel: (() => void) | undefined;

  constructor(store: Store, over: (error: unknown) => void) {
    this.#store = store;
    this.#over = over;
    this.#startedAt = store.clock.now();
  }

  readonly failed = (error: unknown): void => {
    const { clock } = this.#store;
    this.#error = error;
    const leftMs = Math.max(0, this.#startedAt + callerMsMax - clock.now());
    this.#cancel ??= clock.after(leftMs, () => this.#over(this.#error));
  };

  end(): void {
    this.#cancel?.();
  }
}

async function save(store: Store, settle: Settle | Resolve, failed: (error: unknown) => void): Promise<Answer> {
  const retry = { what: `the outcome of ${nameOf(settle)}`, failed };
  try {
    return await afterEffect(store, () => store.commit({ ledger: settle }), retry);
  } catch (error) {
    // The store never accepts this value. Settle the key without it: the key must not become free because of that.
    const to = error instanceof StoreRefusedError ? shorter(settle.to) : undefined;
    if (to === undefined) throw error;
    const bare = { ...settle, to };
    return await afterEffect(store, () => store.commit({ ledger: bare }), retry);
  }
}

/** The same settlement without its value, or with a shortened error. Undefined: nothing can be left out. */
export function shorter(to: Settlement): Resolve["to"] | undefined {
  if (to.state === "completed") return to.outcome === null ? undefined : { state: "completed", outcome: null };
  if (to.state !== "failed") return undefined;
  const outcome = shortError(to.outcome);
  return outcome.length < to.outcome.length ? { state: "failed", outcome } : undefined;
}

function nameOf({ scope, key, attempt }: Renew | Settle | Resolve): string {
  return `key "${key}"${scope === "" ? "" : ` in scope "${scope}"`}, attempt ${attempt},`;
}
