import { type RecordId, rowOf } from "../ledger/record.js";
import type { Clock } from "../work/clock.js";
import type { Answered } from "./commit/group-commit.js";

/** Wakes callers that wait for a record as soon as this process settles it, without waiting for their next poll. */
export class RecordWaiters {
  readonly #clock: Clock;
  readonly #waiting = new Map<string, Set<() => void>>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Resolves when this process settles the record, or after `ms`. Rejects with the signal's reason. */
  wait(id: RecordId, ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const row = rowOf(id);
      const wakers = this.#waiting.get(row) ?? new Set();
      this.#waiting.set(row, wakers);
      const end = (then: () => void) => {
        cancel();
        wakers.delete(onChange);
        if (wakers.size === 0 && this.#waiting.get(row) === wakers) this.#waiting.delete(row);
        signal?.removeEventListener("abort", onAbort);
        then();
      };
      const onChange = () => end(resolve);
      const onAbort = () => end(() => reject(signal?.reason));
      const cancel = this.#clock.after(ms, onChange);
      wakers.add(onChange);
      signal?.addEventListener("abort", onAbort, { once: true });
    });
  }

  wakeSettled(answered: readonly Answered[]): void {
    for (const { operation, answer } of answered) if (answer.kind === "settled") this.wake(operation);
  }

  wake(id: RecordId): void {
    const row = rowOf(id);
    const wakers = this.#waiting.get(row);
    this.#waiting.delete(row);
    for (const waker of wakers ?? []) waker();
  }
}
