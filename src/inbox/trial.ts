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

/** How an attempt failed. `saved` is false if another process has taken over the record. */
export interface Failure {
  readonly error: unknown;
  readonly attempt: number;
  readonly kind: "retry" | "dead" | "unknown";
  saved: boolean;
}

/** Thrown if the message must run alone, or must wait while another message runs alone. */
export class NotNow extends ReleasedAttempt {
  /** Number of processes that died in a row while they handled the message, if that makes it a suspect. */
  readonly suspectDeaths: number | undefined;
  constructor(suspectDeaths?: number) {
    super(suspectDeaths === undefined ? "another message is running alone" : "the message must run alone");
    this.suspectDeaths = suspectDeaths;
  }
}

/** The rules for the attempts at one message: whether an attempt may run, its time limit, and what a failure means. */
export class Trial implements AttemptRules {
  /** How long the message runs alone in this process; undefined if it runs beside others. */
  aloneMs: number | undefined;
  /** Lets other messages run again. */
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
    // The attempt log is read only if the attempt may exceed the limit or the message may be a suspect.
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
    // A message that crashes its process never throws: without this limit it would crash one process after the other.
    if (count > attemptsMax && deaths > 0) throw exhausted(attempt, attemptsMax);
    if (deaths >= suspectDeaths && this.aloneMs === undefined) throw new NotNow(deaths);
    this.#enter();
  }

  #enter(): void {
    if (this.aloneMs !== undefined) this.#leave = this.#policy.store.clock.after(this.aloneMs, this.reopen, true);
    else if (this.#inHand.enter()) this.#leave = () => this.#inHand.leave();
    else throw new NotNow();
  }

  /** Ends the attempt's presence among the messages in progress. */
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

  /** The failure, if `error` is the error of this attempt. */
  failureBy(error: unknown): Failure | undefined {
    return this.#failure?.error === error ? this.#failure : undefined;
  }
}

/** Verdicts that end the count: an earlier operation ended with them, or a person resolved the key. */
const ends: ReadonlySet<Verdict> = new Set(["completed", "failed", "resolved"]);
const pageSize = 100;

/**
 * Reads the attempt log. `count`: attempts that count against the limit, this one included. Released attempts do not count. An
 * attempt whose process died beside other messages does not count, because any of them may have crashed it; nor do attempts of
 * 0.1.0, which did not record whether they ran alone. `deaths`: how many attempts directly before this one ended by a crash.
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
