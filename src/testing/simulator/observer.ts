import type { Operation } from "../../core/ledger/operation.js";
import type { Backend, Verdicted } from "../../core/store/store.js";
import type { MemoryLedger } from "../../stores/memory/backend.js";

/** One operation that the store executed, and its answer. */
export interface Observed {
  readonly at: number;
  readonly operation: Operation;
  readonly answer: Verdicted["answer"];
}

/** A simulation found a broken promise. The message says which promise, and what was observed. */
export class PromiseBroken extends Error {
  override readonly name = "PromiseBroken";
}

/** The observer's own model of a key, built only from operations and answers, without code of the store. */
interface Known {
  attempt: number;
  owner: string;
  leaseUntil: number;
  ended: boolean;
  resolved: boolean;
  effect: string;
  /** The outcome that was recorded first, until the key is free again. */
  outcome: string | null | undefined;
}

/**
 * Watches every operation at the store and checks the ledger's promises at once: at most one live attempt per key, attempt
 * numbers without gaps, no write by a stale owner, no late result of the current attempt rejected, replays equal to the first outcome.
 */
export class Observer {
  readonly history: Observed[] = [];
  /** Started attempts per key. */
  readonly started = new Map<string, Set<number>>();
  /** The first broken promise. Stored instead of thrown, because error handling of the code under test could swallow it. */
  broken: PromiseBroken | undefined;
  readonly #known = new Map<string, Known>();

  observe(backend: Backend, ledger: MemoryLedger): Backend {
    return {
      ...backend,
      flush: async (operations) => {
        const verdicts = await backend.flush(operations);
        operations.forEach((operation, i) => {
          const verdict = verdicts[i];
          if (verdict !== undefined && verdict !== "again" && !(verdict instanceof Error)) this.#watch(operation, verdict, ledger.now());
        });
        return verdicts;
      },
    };
  }

  #watch(operation: Operation, verdict: Verdicted, at: number): void {
    try {
      this.#check(operation, verdict, at);
    } catch (error) {
      if (!(error instanceof PromiseBroken)) throw error;
      this.broken ??= error;
    }
  }

  #check(operation: Operation, { answer }: Verdicted, at: number): void {
    this.history.push({ at, operation, answer });
    const { key } = operation;
    const known = this.#known.get(key);
    switch (operation.verb) {
      case "begin":
        if (answer.kind === "started") this.#onStarted(operation.owner, operation.leaseMs, key, answer.attempt, operation.effect, at);
        if (answer.kind === "replay" && known?.outcome !== answer.record.outcome)
          throw new PromiseBroken(`${key}: a replay differs from the first outcome`);
        if (answer.kind === "unknown" && known && !known.ended && at < known.leaseUntil)
          throw new PromiseBroken(`${key}: attempt ${known.attempt} holds a live lease, but begin answered "unknown"`);
        return;
      case "renew":
        if (answer.kind !== "renewed" || known === undefined) return;
        if (known.owner !== operation.owner || known.ended) throw new PromiseBroken(`${key}: a stale owner renewed the lease`);
        known.leaseUntil = Math.max(known.leaseUntil, at + operation.leaseMs);
        return;
      case "settle":
        this.#onSettle(operation, answer.kind, known);
        return;
      case "resolve":
        if (answer.kind !== "settled" || known === undefined) return;
        if (known.attempt !== operation.attempt)
          throw new PromiseBroken(`${key}: resolve changed a different attempt than the one it named`);
        if (!known.ended && at < known.leaseUntil) throw new PromiseBroken(`${key}: an attempt with a live lease was resolved`);
        Object.assign(known, { ended: true, resolved: true, owner: operation.owner, outcome: outcomeIn(operation) });
    }
  }

  #onStarted(owner: string, leaseMs: number, key: string, attempt: number, effect: string, at: number): void {
    const known = this.#known.get(key);
    // The same begin, sent again after a lost reply, gets the same answer.
    if (known?.owner === owner && known.attempt === attempt) return;
    if (known && !known.ended && at < known.leaseUntil)
      throw new PromiseBroken(`${key}: attempt ${attempt} began while attempt ${known.attempt} held a live lease`);
    if (attempt !== (known?.attempt ?? 0) + 1)
      throw new PromiseBroken(`${key}: attempt ${attempt} followed attempt ${known?.attempt ?? 0}`);
    const started = this.started.get(key) ?? new Set();
    this.started.set(key, started.add(attempt));
    this.#known.set(key, { attempt, owner, leaseUntil: at + leaseMs, ended: false, resolved: false, effect, outcome: undefined });
  }

  #onSettle(operation: Extract<Operation, { verb: "settle" }>, kind: string, known: Known | undefined): void {
    const { key, owner, attempt, to } = operation;
    const mine = known !== undefined && known.owner === owner && known.attempt === attempt;
    if (kind === "settled") {
      if (!mine || known.resolved) throw new PromiseBroken(`${key}: a stale owner's write took effect (attempt ${attempt})`);
      if (known.outcome !== undefined && known.outcome !== outcomeIn(operation))
        throw new PromiseBroken(`${key}: attempt ${attempt} changed an outcome that was already recorded`);
      // After "unknown" this owner may still settle: only a recorded outcome is final.
      known.ended = true;
      known.outcome = outcomeIn(operation);
    } else if (mine && !known.resolved && known.outcome === undefined && to.state === "completed") {
      throw new PromiseBroken(`${key}: attempt ${attempt} settled late with the result, and the result was rejected`);
    }
  }
}

/** Undefined for the states without an outcome (free, unknown). */
function outcomeIn({ to }: Extract<Operation, { verb: "settle" | "resolve" }>): string | null | undefined {
  return to.state === "completed" || to.state === "failed" ? to.outcome : undefined;
}
