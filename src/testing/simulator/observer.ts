import type { Operation } from "../../core/ledger/operation.js";
import type { Backend, Verdicted } from "../../core/store/store.js";
import type { MemoryLedger } from "../../stores/memory/backend.js";

/** What the store did, as an outsider sees it. */
export interface Observed {
  readonly at: number;
  readonly operation: Operation;
  readonly answer: Verdicted["answer"];
}

/** A promise was broken. The message says which and what was seen. */
export class PromiseBroken extends Error {
  override readonly name = "PromiseBroken";
}

/** The observer's own idea of a key: kept from answers alone, with none of the store's code. */
interface Known {
  attempt: number;
  owner: string;
  leaseUntil: number;
  ended: boolean;
  resolved: boolean;
  effect: string;
  /** The outcome that was first recorded, until the key is free again. */
  outcome: string | null | undefined;
}

/**
 * Watches every operation at the store and checks the ledger's promises on the spot: at most one live attempt per
 * key, attempt numbers that only rise, no stale write, no truth refused, replays equal to the first outcome.
 */
export class Observer {
  readonly history: Observed[] = [];
  /** Started attempts per key. */
  readonly started = new Map<string, Set<number>>();
  /** The first promise that was broken. Kept, not thrown: the store's own error handling must not swallow it. */
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
          throw new PromiseBroken(`${key}: attempt ${known.attempt} holds a live lease and was called unknown`);
        return;
      case "renew":
        if (answer.kind !== "renewed" || known === undefined) return;
        if (known.owner !== operation.owner || known.ended) throw new PromiseBroken(`${key}: a stale owner renewed`);
        known.leaseUntil = Math.max(known.leaseUntil, at + operation.leaseMs);
        return;
      case "settle":
        this.#onSettle(operation, answer.kind, known);
        return;
      case "resolve":
        if (answer.kind !== "settled" || known === undefined) return;
        if (known.attempt !== operation.attempt) throw new PromiseBroken(`${key}: resolve changed another attempt than it named`);
        if (!known.ended && at < known.leaseUntil) throw new PromiseBroken(`${key}: a live attempt was resolved`);
        Object.assign(known, { ended: true, resolved: true, owner: operation.owner, outcome: outcomeIn(operation) });
    }
  }

  #onStarted(owner: string, leaseMs: number, key: string, attempt: number, effect: string, at: number): void {
    const known = this.#known.get(key);
    // The same begin, sent again after a lost reply, finds its own success.
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
        throw new PromiseBroken(`${key}: attempt ${attempt} changed an outcome that was recorded`);
      // Unknown stays open to this owner: only a final word ends it.
      known.ended = true;
      known.outcome = outcomeIn(operation);
    } else if (mine && !known.resolved && known.outcome === undefined && to.state === "completed") {
      throw new PromiseBroken(`${key}: attempt ${attempt} came late with the truth, and it was thrown away`);
    }
  }
}

/** Undefined while there is none: free and unknown keys have no outcome to be equal to. */
function outcomeIn({ to }: Extract<Operation, { verb: "settle" | "resolve" }>): string | null | undefined {
  return to.state === "completed" || to.state === "failed" ? to.outcome : undefined;
}
