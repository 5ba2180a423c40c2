import type { Clock } from "./clock.js";
import type { Answered } from "./group-commit.js";
import type { AuditEntry, Backend } from "./store.js";

const waitingMax = 10_000;
const batchMax = 500;

/**
 * A replay writes nothing. Whoever has to show who asked as well (`audit: "all"`) gets every replay and refusal
 * appended to a log, after the answer has gone out: the log is evidence, and nobody waits for it.
 */
export class AuditLog {
  readonly #backend: Pick<Backend, "audit" | "name">;
  readonly #clock: Clock;
  #waiting: AuditEntry[] = [];
  #writing: Promise<void> | undefined;

  constructor(backend: Pick<Backend, "audit" | "name">, clock: Clock) {
    this.#backend = backend;
    this.#clock = clock;
  }

  note(answered: readonly Answered[]): void {
    for (const { operation, answer } of answered) {
      if (operation.verb !== "begin" || answer.kind === "started") continue;
      const { scope, key, owner } = operation;
      if (answer.kind === "replay") this.#waiting.push({ scope, key, owner, answer: "replay", attempt: answer.record.attempt });
      else if (answer.kind !== "settled" && answer.kind !== "renewed" && answer.kind !== "stale")
        this.#waiting.push({ scope, key, owner, answer: answer.kind, attempt: answer.attempt });
    }
    this.#pump();
  }

  async close(): Promise<void> {
    while (this.#writing !== undefined) await this.#writing;
  }

  #pump(): void {
    if (this.#writing !== undefined || this.#waiting.length === 0) return;
    this.#writing = new Promise((done) => {
      this.#clock.soon(() => {
        const batch = this.#waiting.splice(0, batchMax);
        void this.#backend
          .audit(batch)
          .catch((error: unknown) => this.#onFailure(batch, error))
          .then(() => {
            this.#writing = undefined;
            this.#pump();
            done();
          });
      });
    });
  }

  /** Tried again with whatever comes next; beyond a bound the oldest are dropped, and that is said. */
  #onFailure(batch: readonly AuditEntry[], error: unknown): void {
    const dropped = Math.max(0, this.#waiting.length + batch.length - waitingMax);
    const why = error instanceof Error ? error.message : String(error);
    process.emitWarning(`[onceflow] [${this.#backend.name}] the audit log could not be written (${why}); ${dropped} entries were dropped`, {
      type: "OnceflowWarning",
      code: "ONCEFLOW_AUDIT",
    });
    const kept = batch.slice(dropped);
    // Goes out with the next entry, not at once: a broken store must not be asked in a circle.
    queueMicrotask(() => {
      this.#waiting = [...kept, ...this.#waiting];
    });
  }
}
