import type { Answered } from "../store/commit/group-commit.js";
import type { AuditEntry, Backend } from "../store/store.js";
import type { Clock } from "../work/clock.js";

const waitingMax = 10_000;
const batchMax = 500;

/**
 * A replay writes nothing to the ledger. With `audit: "all"`, every replay and refusal is also appended to a log, in the
 * background: the caller has its answer already and does not wait for the log.
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

  /** Writes the waiting entries. Entries whose write failed are tried once more. */
  async close(): Promise<void> {
    while (this.#writing !== undefined) await this.#writing;
    if (this.#waiting.length === 0) return;
    this.#pump();
    await this.#writing;
  }

  #pump(): void {
    if (this.#writing !== undefined || this.#waiting.length === 0) return;
    this.#writing = new Promise<void>((soon) => this.#clock.soon(soon)).then(() => this.#write());
  }

  async #write(): Promise<void> {
    const batch = this.#waiting.splice(0, batchMax);
    try {
      await this.#backend.audit(batch);
    } catch (error) {
      // Retried with the next entry, not at once: a failing store must not be called in a loop.
      this.#putBack(batch, error);
      this.#writing = undefined;
      return;
    }
    this.#writing = undefined;
    this.#pump();
  }

  /** Beyond `waitingMax` the oldest entries are dropped, and the warning says how many. */
  #putBack(batch: readonly AuditEntry[], error: unknown): void {
    const all = [...batch, ...this.#waiting];
    const dropped = Math.max(0, all.length - waitingMax);
    this.#waiting = all.slice(dropped);
    const why = error instanceof Error ? error.message : String(error);
    process.emitWarning(`[onceflow] [${this.#backend.name}] the audit log could not be written (${why}); ${dropped} entries were dropped`, {
      type: "OnceflowWarning",
      code: "ONCEFLOW_AUDIT",
    });
  }
}
