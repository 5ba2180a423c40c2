import { InvalidInputError, UnreachableError } from "../core/errors/errors.js";
import type { OperatorOptions, OperatorResult } from "../core/packets/operator.js";
import type { Store, Tx } from "../core/store/store.js";
import { Adder } from "./add.js";
import {
  discard,
  listDeadLetters,
  type OutboxDeadLetter,
  type OutboxDeadLettersOptions,
  retryAllDeadLetters,
  retryDeadLetter,
} from "./dead-letters.js";
import type { NewMessage } from "./message.js";
import { noCounts, type OutboxMetrics } from "./metrics.js";
import { checkOptions, checkRelayOptions, type OutboxOptions, type RelayOptions } from "./options.js";
import type { Publisher } from "./publish.js";
import { Relay } from "./relay.js";

/** Number of messages in the store that are not published yet, of all processes. */
export interface OutboxPending {
  /** Due now, or after a backoff delay. */
  readonly due: number;
  /** Waiting for an earlier message of their key. */
  readonly waiting: number;
  /** Claimed by a relay. */
  readonly publishing: number;
  readonly dead: number;
}

/** A running relay. */
export interface OutboxRelay {
  /** Stops claiming, waits up to `graceMs` (default 10 s) for running publishers, and releases the other messages. */
  readonly stop: (options?: { readonly graceMs?: number }) => Promise<void>;
}

/** An outbox: add messages in your transactions, and run relays that publish them. */
export interface Outbox<Payload = unknown> {
  readonly name: string;
  /**
   * Adds a message and returns its id. The message is in the outbox if, and only if, the transaction commits. Without a
   * transaction (undefined, or the store) it is stored when this resolves. Throws InvalidInputError for a wrong message, and
   * ConfigurationError if the store cannot add messages in a transaction.
   */
  readonly add: (tx: Tx | undefined, message: NewMessage<Payload>) => Promise<string>;
  /** Starts a relay, which publishes messages until it is stopped or the store is closed. */
  readonly relay: (publisher: Publisher<Payload>, options?: RelayOptions) => OutboxRelay;
  /** Counts the messages that are not published yet. */
  readonly pending: () => Promise<OutboxPending>;
  /** Lists dead letters, newest first, a page at a time. */
  readonly deadLetters: (options?: OutboxDeadLettersOptions) => Promise<readonly OutboxDeadLetter<Payload>[]>;
  /**
   * Retries a dead letter, by the id of its message: at the head of its key if it blocked the key, else at its end. Returns
   * false if there is no such dead letter. With the options of an operator it is written to the operator log in the same commit.
   */
  readonly retry: {
    (id: string): Promise<boolean>;
    (id: string, operator: OperatorOptions): Promise<OperatorResult | false>;
  };
  /** Retries all dead letters, after an outage for example. Returns how many. With the options of an operator each has an entry in the operator log. */
  readonly retryAll: (operator?: OperatorOptions & { readonly reason: string }) => Promise<number>;
  /** @deprecated Use `retry`. */
  readonly redrive: (id: string) => Promise<boolean>;
  /** @deprecated Use `retryAll`. */
  readonly redriveAll: () => Promise<number>;
  /**
   * Removes a dead letter permanently, by the id of its message; messages that it blocked become due. False if there is none. With the
   * options of an operator it is written to the operator log in the same commit.
   */
  readonly discard: {
    (id: string): Promise<boolean>;
    (id: string, operator: OperatorOptions & { readonly reason: string }): Promise<OperatorResult | false>;
  };
  readonly metrics: OutboxMetrics;
}

/**
 * Creates an outbox: messages are committed together with your business rows and published later, at least once, with the same
 * id at every delivery, and within a key in the order of commits. Throws InvalidInputError for wrong options, and
 * ConfigurationError if the store keeps no packets.
 *
 * @example
 * const outbox = createOutbox(store, { name: "orders" });
 * await store.transact(async (tx) => {
 *   await tx.query("INSERT INTO orders …");
 *   await outbox.add(tx, { key: "order-1", payload: { placed: "order-1" } });
 * });
 * const relay = outbox.relay((message, { signal }) => broker.publish(message.id, message.payload, { signal }));
 */
export function createOutbox<Payload = unknown>(store: Store, options: OutboxOptions): Outbox<Payload> {
  const policy = checkOptions(store, options);
  const { name, flow } = policy;
  const adder = new Adder(policy);
  const counts = noCounts();
  const relays = new Set<Relay>();
  const wake = () => {
    for (const relay of relays) relay.wake();
  };
  const retry = (id: string, operator?: OperatorOptions) => retryDeadLetter(policy, id, operator).finally(wake);
  const remove = (id: string, operator?: OperatorOptions) => discard(policy, id, operator).finally(wake);
  const retryAll = (operator?: OperatorOptions) => retryAllDeadLetters(policy, operator).finally(wake);

  return {
    name,
    async add(tx, message) {
      const id = await adder.add(tx, message);
      counts.added += 1;
      // In a transaction the message is not visible yet: the store notifies relays when it commits.
      if (tx === undefined || tx === store) wake();
      return id;
    },
    relay(publisher, relayOptions = {}) {
      if (typeof publisher !== "function") throw new InvalidInputError("publisher", "must be a function that publishes a message");
      const checked = checkRelayOptions(relayOptions);
      if (store.closed) throw new UnreachableError(`[onceflow] [${store.name}] the store is closed`);
      const relay = new Relay({ policy, relay: checked, publisher: publisher as Publisher }, counts);
      relays.add(relay);
      const stop = ({ graceMs = 10_000 } = {}) => {
        forget();
        return relay.stop(graceMs).finally(() => relays.delete(relay));
      };
      const forget = store.beforeClose(() => stop());
      return { stop };
    },
    async pending() {
      const [count] = (await store.packets.counts()).filter((each) => each.flow === flow);
      const { due = 0, held = 0, owned = 0, dead = 0 } = count ?? {};
      return { due, waiting: held, publishing: owned, dead };
    },
    deadLetters: (page = {}) => listDeadLetters(policy, page),
    retry: retry as Outbox["retry"],
    retryAll,
    redrive: (id) => retry(id) as Promise<boolean>,
    redriveAll: () => retryAll(),
    discard: remove as Outbox["discard"],
    get metrics() {
      return { ...counts, inFlight: [...relays].reduce((sum, relay) => sum + relay.inFlight, 0) };
    },
  };
}
