import { InvalidInputError } from "../../core/errors/errors.js";
import { whole } from "../../core/ledger/key-ref.js";
import { type Backoff, backoffMs } from "../../core/work/backoff.js";
import { sleep, systemClock } from "../../core/work/clock.js";
import type { Handled } from "../handled.js";
import type { Inbox, OperationInbox } from "../inbox.js";
import type { Message, MessageHandler } from "../message.js";
import type { Arrived } from "./arrived.js";

/** What every adapter is given. */
export interface ConsumeOptions<T = unknown, R = unknown> {
  readonly inbox: Inbox | OperationInbox<R>;
  /** Called with each message. An inbox with an operation has its own. */
  readonly handle?: MessageHandler<T, R>;
  /** How many messages at a time. */
  readonly concurrency?: number;
  /** Makes a payload of a message's bytes. JSON, if nothing else is said. */
  readonly decode?: (bytes: Uint8Array) => T;
  /** Told of what goes wrong outside of the handler: at the store, at the broker. A warning of the process, if nobody listens. */
  readonly onError?: (error: unknown, message?: Message<T>) => unknown;
}

/** A consumer at work. */
export interface Consuming {
  /** Takes no more messages, and resolves when those that are under way are finished. What waits for its next attempt goes back. */
  stop(): Promise<void>;
}

/** What the broker is to be told: to forget the message, or to let it come again, not before so many ms. */
export type Verdict<R> = { readonly done: Handled<R> } | { readonly againMs: number };

/** For a broker or a store that fails. */
export const outageBackoff: Backoff = { minMs: 100, maxMs: 30_000 };

/** The one path of a message, whatever broker it comes from. */
export class Consumer<T, R> {
  readonly concurrency: number;
  readonly #options: ConsumeOptions<T, R>;
  #outages = 0;

  constructor(options: ConsumeOptions<T, R>, concurrency = 10) {
    this.#options = options;
    this.concurrency = options.concurrency ?? concurrency;
    whole("concurrency", this.concurrency, 1, 1000);
    if (typeof options.inbox?.handle !== "function") throw new InvalidInputError("inbox", "must be one that createInbox has made");
    const { operation } = options.inbox;
    if (operation === undefined && typeof options.handle !== "function")
      throw new InvalidInputError("handle", "must be a function: it is called with each message");
    if (operation !== undefined && options.handle !== undefined)
      throw new InvalidInputError("handle", `must be left out: this inbox runs its operation "${operation}"`);
  }

  /** Where the store fails nothing is known: the message comes again, and the inbox finds out whether it was handled. */
  async verdict({ message, refused }: Arrived<T>): Promise<Verdict<R>> {
    const { handle } = this.#options;
    const inbox = this.#options.inbox as Inbox;
    try {
      const handled = await (refused === undefined
        ? inbox.handle(message, handle as MessageHandler<T, R>)
        : inbox.refuse(message, refused));
      this.#outages = 0;
      if (handled.status === "retry") return { againMs: handled.afterMs };
      if (handled.status === "held") return { againMs: handled.forMs };
      return { done: handled };
    } catch (error) {
      this.tell(error, message);
      return { againMs: backoffMs(outageBackoff, ++this.#outages) };
    }
  }

  /** For brokers that would put it behind others: it is kept here, until it is done. False: the signal said to give up. */
  async untilDone(arrived: Arrived<T>, signal: AbortSignal): Promise<boolean> {
    while (!signal.aborted) {
      const verdict = await this.verdict(arrived);
      if ("done" in verdict) return true;
      await pause(verdict.againMs, signal);
    }
    return false;
  }

  /** Whoever listens must not stop the consumer by throwing. */
  tell(error: unknown, message?: Message<T>): void {
    const { onError = warn } = this.#options;
    const telling = async () => await onError(error, message);
    void telling().catch((thrown: unknown) => warn(thrown, message));
  }
}

function warn(error: unknown, message?: Message): void {
  const what = message === undefined ? "the broker failed" : `message "${message.id}" may come again`;
  process.emitWarning(`[onceflow] [inbox] ${what}: ${error}`, { type: "OnceflowWarning", code: "ONCEFLOW_CONSUMER" });
}

/** Over early when the signal says so. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(systemClock, ms, signal).catch(() => undefined);
}
