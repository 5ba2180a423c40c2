import type { Tx } from "../core/store.js";
import { runIn, type StepMetadata } from "./context.js";
import type { StepDefinition } from "./define.js";
import type { How } from "./event.js";
import type { Execution } from "./execution.js";
import { stepIdOf } from "./identity.js";

export type BodyOutcome =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly error: unknown; readonly how?: How };

/** One attempt of a step while its body runs, as the body sees it. */
export class StepBody {
  readonly kind = "step";
  readonly execution: Execution;
  readonly definition: StepDefinition;
  readonly id: string;
  readonly attempt: number;
  readonly startedAt: number;
  /** Runs started in this body so far: their ids are derived from it. */
  started = 0;
  #controller: AbortController | undefined;
  #aborted: { readonly reason: unknown } | undefined;

  constructor(execution: Execution, definition: StepDefinition, id: string, attempt: number, startedAt: number) {
    this.execution = execution;
    this.definition = definition;
    this.id = id;
    this.attempt = attempt;
    this.startedAt = startedAt;
  }

  get stepId(): string {
    return stepIdOf(this.execution.id, this.id);
  }

  get metadata(): StepMetadata {
    const { stepId, definition, startedAt, attempt, signal } = this;
    return { stepId, stepName: definition.name, stepStartedAt: new Date(startedAt), attempt, signal };
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#aborted) this.#controller.abort(this.#aborted.reason);
    return this.#controller.signal;
  }

  get aborted(): boolean {
    return this.#aborted !== undefined;
  }

  abort(reason: unknown): void {
    this.#aborted ??= { reason };
    this.#controller?.abort(reason);
  }

  async run(args: readonly unknown[]): Promise<BodyOutcome> {
    const { timeoutMs } = this.definition.options();
    const running = this.#settle(args);
    return timeoutMs === undefined ? running : await this.#within(timeoutMs, running);
  }

  async #settle(args: readonly unknown[]): Promise<BodyOutcome> {
    try {
      const fn = this.execution.host.bodyOf(this);
      return { ok: true, value: await runIn(this, () => fn(...args)) };
    } catch (error) {
      return { ok: false, error };
    }
  }

  /**
   * With its transaction as the first argument, and what it throws thrown: the transaction must be rolled back. Its time
   * being over only aborts its signal: nobody can roll back under a body that still uses the transaction.
   */
  async runInTransaction(tx: Tx, args: readonly unknown[]): Promise<unknown> {
    const { timeoutMs } = this.definition.options();
    const abort = () => this.abort(this.#timeout(timeoutMs));
    const cancel = timeoutMs === undefined ? () => {} : this.execution.store.clock.after(timeoutMs, abort);
    try {
      const fn = this.execution.host.bodyOf(this);
      return await runIn(this, () => fn(tx, ...args));
    } finally {
      cancel();
    }
  }

  #timeout(timeoutMs: number | undefined): Error {
    const error = new Error(`step "${this.definition.name}" took longer than ${timeoutMs} ms`);
    error.name = "TimeoutError";
    return error;
  }

  /**
   * After the time is over the body may still be at it: its signal aborts, and it gets its grace to end. Only then may
   * a retry begin. What it still brings in its grace counts: a known truth is not thrown away.
   */
  async #within(timeoutMs: number, running: Promise<BodyOutcome>): Promise<BodyOutcome> {
    const { clock } = this.execution.store;
    const { graceMs } = this.definition.options();
    const timeout = this.#timeout(timeoutMs);
    return await new Promise((resolve) => {
      let cancel = clock.after(timeoutMs, () => {
        this.abort(timeout);
        cancel = clock.after(graceMs, () => {
          const error = new Error(`${timeout.message}, and was still running ${graceMs} ms after its signal was aborted`);
          error.name = "TimeoutError";
          resolve({ ok: false, error, how: "timeout" });
        });
      });
      void running.then((outcome) => {
        cancel();
        resolve(outcome.ok || this.#aborted === undefined ? outcome : { ok: false, error: timeout, how: "timeout" });
      });
    });
  }
}
