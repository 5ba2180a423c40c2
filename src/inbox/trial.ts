import type { Answer, Settlement } from "../core/ledger/operation.js";
import { wasAlone } from "../core/ledger/owner.js";
import type { RecordId, Verdict } from "../core/ledger/record.js";
import { type Attempt, type AttemptRules, type Handler, ReleasedAttempt, type Started } from "../core/ledger/run-attempt.js";
import { failureOf } from "../core/ledger/settlement.js";
import type { Store } from "../core/store/store.js";
import { runBounded } from "../core/work/bounded-attempt.js";
import { InHand, suspectDeaths } from "../core/work/in-hand.js";
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

/** Thrown where the message has to be handled by itself, or has to wait until another one was. */
export class NotNow extends ReleasedAttempt {
  /** Processes that died in a row while they had the message in hand, where that makes it a suspect. */
  readonly suspectDeaths: number | undefined;
  constructor(suspectDeaths?: number) {
    super(suspectDeaths === undefined ? "another message is handled by itself" : "the message has to be handled by itself");
    this.suspectDeaths = suspectDeaths;
  }
}

/** One message on its way: whether an attempt may run, for how long, and what it means when it fails. */
export class Trial implements AttemptRules {
  /** Set: the process has nothing else in hand for so long. */
  aloneMs: number | undefined;
  /** Ends that. */
  reopen: () => void = () => {};
  readonly #policy: Policy;
  readonly #message: Message;
  readonly #inHand: InHand;
  #leave: () => void = () => {};
  #last = false;
  #failure: Failure | undefined;

  constructor(policy: Policy, message: Message) {
    this.#policy = policy;
    this.#message = message;
    this.#inHand = InHand.of(policy.store);
  }

  admit({ attempt }: Started, id: RecordId): Promise<void> | undefined {
    const { attemptsMax } = this.#policy;
    this.#last = attemptsMax === 1;
    // The first is never one too many, and what died once is no suspect: nothing has to be read.
    if (attempt > suspectDeaths || (attempt > 1 && attempt >= attemptsMax)) return this.#judge(attempt, id);
    this.#enter();
    return undefined;
  }

  async #judge(attempt: number, id: RecordId): Promise<void> {
    const { store, attemptsMax } = this.#policy;
    const { count, deaths } = await pastOf(store, id, attempt, attemptsMax).catch((cause: unknown) => {
      throw new ReleasedAttempt("the attempts before this one could not be read", { cause });
    });
    this.#last = count >= attemptsMax;
    // A message that kills its process never throws: without this it would kill one after the other.
    if (count > attemptsMax && deaths > 0) throw exhausted(attempt, attemptsMax);
    if (deaths >= suspectDeaths && this.aloneMs === undefined) throw new NotNow(deaths);
    this.#enter();
  }

  #enter(): void {
    if (this.aloneMs !== undefined) this.#leave = this.#policy.store.clock.after(this.aloneMs, this.reopen, true);
    else if (this.#inHand.enter()) this.#leave = () => this.#inHand.leave();
    else throw new NotNow();
  }

  /** The attempt is over. */
  leave(): void {
    this.#leave();
    this.#leave = () => {};
  }

  async run(attempt: Attempt, body: Handler<unknown>): Promise<unknown> {
    const { store, timeoutMs, graceMs } = this.#policy;
    const overdueError = () => tookTooLong(timeoutMs);
    return await runBounded(store.clock, attempt, { timeoutMs, graceMs, overdueError }, async (bounded) => await body(bounded));
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
const pageSize = 100;

/**
 * What the log says of the attempts before this one. `count`: how many count, this one among them. One that was handed back
 * was not made. One that fell silent beside others counts for none of them, since any of them may have killed the process;
 * so do those of 0.1.0, which do not say whether they were alone. `deaths`: how many in a row fell silent, up to this one.
 */
async function pastOf(store: Store, { scope, key }: RecordId, number: number, attemptsMax: number) {
  let [count, deaths, inARow] = [1, 0, true];
  for (let before = number; before > 1 && count <= attemptsMax; before -= pageSize) {
    const page = await store.attempts({ scope, key, afterAttempt: Math.max(0, before - 1 - pageSize), limit: pageSize });
    for (const entry of page.filter(({ attempt }) => attempt < before).reverse()) {
      const { verdict } = entry;
      if (ends.has(verdict)) return { count, deaths };
      if (verdict === "released") continue;
      if (verdict !== "lapsed") inARow = false;
      else if (inARow) deaths += 1;
      if (verdict !== "lapsed" || wasAlone(entry)) count += 1;
    }
  }
  return { count, deaths };
}
