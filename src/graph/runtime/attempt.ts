import type { Clock } from "../../core/clock.js";
import { NodeError } from "../node/node-error.js";

/** One call of a node, bounded in time. Its signal is made when somebody asks for it. */
export class Attempt {
  #controller: AbortController | undefined;
  #reason: unknown;

  signal = (): AbortSignal => {
    this.#controller ??= new AbortController();
    if (this.#reason !== undefined && !this.#controller.signal.aborted) this.#controller.abort(this.#reason);
    return this.#controller.signal;
  };

  abort(reason: unknown): void {
    this.#reason ??= reason;
    this.#controller?.abort(this.#reason);
  }

  /** It may be over before it has begun: while it waited for its turn, say. */
  check(): void {
    if (this.#reason !== undefined) throw this.#reason;
  }

  /**
   * What `work` comes to. After `timeoutMs` its signal aborts, and it has `graceMs` to end: what it says by then counts,
   * because it is known. After that its body may still be running, and the next attempt may overlap with it.
   */
  within<T>(clock: Clock, timeoutMs: number, graceMs: number, work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      let cancel = clock.after(timeoutMs, () => {
        const late = new NodeError("TIMEOUT", `it took longer than ${timeoutMs} ms`);
        this.abort(late);
        cancel = clock.after(graceMs, () => reject(late));
      });
      const end = (): void => cancel();
      work.then(
        (value) => {
          end();
          resolve(value);
        },
        (error: unknown) => {
          end();
          // What a node says of itself is known; that it was cut short is what anything else means now.
          reject(this.#reason instanceof NodeError && !NodeError.is(error) ? this.#reason : error);
        },
      );
    });
  }
}
