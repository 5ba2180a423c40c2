import { InvalidInputError } from "../../core/errors/errors.js";
import { whole } from "../../core/ledger/key-ref.js";
import { type Backoff, backoffMs } from "../../core/work/backoff.js";
import { sleep, systemClock } from "../../core/work/clock.js";
import type { Handled } from "../handled.js";
import type { Inbox, OperationInbox } from "../inbox.js";
import type { Message, MessageHandler } from "../message.js";
import type { Arrived } from "./arrived.js";

/** Options that all adapters share. */
export interface ConsumeOptions<T = unknown, R = unknown> {
  readonly inbox: Inbox | OperationInbox<R>;
  /** Called with each message. Omit it for an inbox with an operation. */
  readonly handle?: MessageHandler<T, R>;
  /** Maximum number of messages handled at the same time. Default 10; 1 for Kafka. */
  readonly concurrency?: number;
  /** Decodes the bytes of a message to its payload. Default: JSON. */
  readonly decode?: (bytes: Uint8Array) => T;
  /** Called with errors outside the handler, of the store or the broker. Default: emits a process warning. */
  readonly onError?: (error: unknown, message?: Message<T>) => unknown;
}

/** A running consumer. */
export interface Consuming {
  /** Stops receiving and resolves when the messages in progress are finished. Messages that wait for a retry go back to the broker. */
  stop(): Promise<void>;
}

/** What to tell the broker: acknowledge the message, or deliver it again after `againMs`. */
export type Verdict<R> = { readonly done: Handled<R> } | { readonly againMs: number };

/** Delays after errors of the broker or the store. */
export const outageBackoff: Backoff = { minMs: 100, maxMs: 30_000 };

/** Handles messages of any broker through the inbox. */
export class Consumer<T, R> {
  readonly concurrency: number;
  readonly #options: ConsumeOptions<T, R>;
  #outages = 0;

  constructor(options: ConsumeOptions<T, R>, concurrency = 10) {
    this.#options = options;
    this.concurrency = options.concurrency ?? concurrency;
    whole("concurrency", this.concurrency, 1, 1000);
    if (typeof options.inbox?.handle !== "function") throw new InvalidInputError("inbox", "must be an inbox created by createInbox");
    const { operation } = options.inbox;
    if (operation === undefined && typeof options.handle !== "function")
      throw new InvalidInputError("handle", "must be a function, called with each message");
    if (operation !== undefined && options.handle !== undefined)
      throw new InvalidInputError("handle", `must be left out: this inbox runs its operation "${operation}"`);
  }

  /** If the store fails, the outcome is unknown: the broker delivers the message again, and the inbox finds out whether it was handled. */
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
      this.reportError(error, message);
      return { againMs: backoffMs(outageBackoff, ++this.#outages) };
    }
  }

  /** For brokers that would move a redelivered message behind others: keeps the message and retries it here. False: the signal aborted. */
  async untilDone(arrived: Arrived<T>, signal: AbortSignal): Promise<boolean> {
    while (!signal.aborted) {
      const verdict = await this.verdict(arrived);
      if ("done" in verdict) return true;
      await pause(verdict.againMs, signal);
    }
    return false;
  }

  /** Calls `onError`, whose own errors must not stop the consumer. */
  reportError(error: unknown, message?: Message<T>): void {
    const { onError = warn } = this.#options;
    const call = async () => await onError(error, message);
    void call().catch((thrown: unknown) => warn(thrown, message));
  }
}

function warn(error: unknown, message?: Message): void {
  const what = message === undefined ? "the broker failed" : `message "${message.id}" may be delivered again`;
  process.emitWarning(`[onceflow] [inbox] ${what}: ${error}`, { type: "OnceflowWarning", code: "ONCEFLOW_CONSUMER" });
}

/** Waits; ends early when the signal aborts. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(systemClock, ms, signal).catch(() => undefined);
}
