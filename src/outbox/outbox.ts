import { InvalidInputError, UnreachableError } from "../core/errors/errors.js";
import type { Store, Tx } from "../core/store/store.js";
import { Adder } from "./add.js";
import { discard, listDeadLetters, type OutboxDeadLetter, type OutboxDeadLettersOptions, redrive, redriveAll } from "./dead-letters.js";
import type { NewMessage } from "./message.js";
import { noCounts, type OutboxMetrics } from "./metrics.js";
import { checkOptions, checkRelayOptions, type OutboxOptions, type RelayOptions } from "./options.js";
import type { Publisher } from "./publish.js";
import { Relay } from "./relay.js";

/** Messages in the store that are not published yet, over all processes. */
export interface OutboxPending {
  /** To be published now, or after a back-off. */
  readonly due: number;
  /** Behind another message of their key. */
  readonly waiting: number;
  /** With a relay. */
  readonly publishing: number;
  readonly dead: number;
}

export interface OutboxRelay {
  /** Claims nothing more, lets publishers end within `graceMs` (default 10 s), and hands the rest back. */
  readonly stop: (options?: { readonly graceMs?: number }) => Promise<void>;
}

export interface Outbox<Payload = unknown> {
  readonly name: string;
  /**
   * The message is in the outbox if, and only if, the transaction commits. Without one (undefined, or the store) it is
   * there when this resolves. Returns its id.
   */
  readonly add: (tx: Tx | undefined, message: NewMessage<Payload>) => Promise<string>;
  /** Publishes messages, from now until it is stopped or the store is closed. */
  readonly relay: (publisher: Publisher<Payload>, options?: RelayOptions) => OutboxRelay;
  readonly pending: () => Promise<OutboxPending>;
  /** Newest first, a page at a time. */
  readonly deadLetters: (options?: OutboxDeadLettersOptions) => Promise<readonly OutboxDeadLetter<Payload>[]>;
  /** Tries a dead letter again, by the id of its message. At the head of its key, if it has blocked that; else at its end. */
  readonly redrive: (id: string) => Promise<boolean>;
  /** All of them, after an outage. Returns how many. */
  readonly redriveAll: () => Promise<number>;
  /** Removes a dead letter for good, by the id of its message. What it blocked goes on. */
  readonly discard: (id: string) => Promise<boolean>;
  readonly metrics: OutboxMetrics;
}

/**
 * Messages that are committed with the business rows they tell of, and published later: at least once, with the same id
 * at every delivery, in the order of commits within a key.
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

  return {
    name,
    async add(tx, message) {
      const id = await adder.add(tx, message);
      counts.added += 1;
      // In a transaction there is nothing to see yet: whoever watches the store is told when it commits.
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
    redrive: (id) => redrive(policy, id).finally(wake),
    redriveAll: () => redriveAll(policy).finally(wake),
    discard: (id) => discard(policy, id).finally(wake),
    get metrics() {
      return { ...counts, inFlight: [...relays].reduce((sum, relay) => sum + relay.inFlight, 0) };
    },
  };
}
