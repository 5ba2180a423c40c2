import { runBounded } from "../core/bounded-attempt.js";
import type { Answer, Settlement } from "../core/operation.js";
import type { RecordId, Verdict } from "../core/record.js";
import type { Attempt, Failures, Handler, Started } from "../core/run-attempt.js";
import { failureOf } from "../core/settlement.js";
import type { Store } from "../core/store.js";
import { exhausted, isPermanent, tookTooLong } from "./errors.js";
import { encodeLetter } from "./letter.js";
import type { Message } from "./message.js";
import type { Policy } from "./options.js";

/** What a failed attempt came to. Not saved: somebody else has the record by now. */
export interface Failure {
  readonly error: unknown;
  readonly attempt: number;
  readonly kind: "retry" | "dead" | "unknown";
  saved: boolean;
}

/** One attempt at a message: whether it may run, for how long, and what it means when it fails. */
export class Trial implements Failures {
  readonly #policy: Policy;
  readonly #message: Message;
  #last = false;
  #failure: Failure | undefined;

  constructor(policy: Policy, message: Message) {
    this.#policy = policy;
    this.#message = message;
  }

  async run(attempt: Attempt, body: Handler<unknown>): Promise<unknown> {
    const { store, attemptsMax, timeoutMs, graceMs } = this.#policy;
    // The first is never one too many: nobody has to look.
    this.#last = attemptsMax === 1;
    if (attempt.number > 1 && attempt.number >= attemptsMax) {
      const { count, silent } = await triesOf(store, attempt, attemptsMax);
      this.#last = count >= attemptsMax;
      // A message that kills its process never throws: without this it would kill one after the other, for ever.
      if (count > attemptsMax && silent) throw exhausted(attempt.number, attemptsMax);
    }
    const overdue = () => tookTooLong(timeoutMs);
    return await runBounded(store.clock, attempt, { timeoutMs, graceMs, overdue }, async (stoppable) => await body(stoppable));
  }

  settlementOf(error: unknown, { attempt, effect }: Started): Settlement {
    const { store } = this.#policy;
    const to = failureOf(error, effect, false);
    const kind = to.state === "unknown" ? "unknown" : this.#last || isPermanent(error) ? "dead" : "retry";
    this.#failure = { error, attempt, kind, saved: false };
    return kind === "dead" ? { state: "failed", outcome: encodeLetter(store, this.#message, error) } : to;
  }

  saved({ kind }: Answer): void {
    if (this.#failure !== undefined) this.#failure.saved = kind === "settled";
  }

  /** If `error` is what this attempt failed with. */
  failureBy(error: unknown): Failure | undefined {
    return this.#failure?.error === error ? this.#failure : undefined;
  }
}

/** With these an earlier operation ended, or a person has set the key free: what came before does not count. */
const ends: ReadonlySet<Verdict> = new Set(["completed", "failed", "resolved"]);

/** How many attempts there were since then, this one among them, and whether the one before it fell silent. */
async function triesOf(store: Store, { scope, key, number }: RecordId & Pick<Attempt, "number">, attemptsMax: number) {
  const past = await store.attempts({ scope, key, afterAttempt: Math.max(0, number - attemptsMax - 1), limit: attemptsMax + 1 });
  const before = past.filter(({ attempt }) => attempt < number).reverse();
  const end = before.findIndex(({ verdict }) => ends.has(verdict));
  return { count: 1 + (end === -1 ? before.length : end), silent: before[0]?.verdict === "lapsed" };
}
