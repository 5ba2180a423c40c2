import { knownOptions } from "../core/errors/known-options.js";
import { isHeard, publish } from "../core/events/channels.js";
import type { Store } from "../core/store/store.js";
import { Gate } from "../core/work/gate.js";
import { checkBatch, handleAll } from "./batch.js";
import {
  type DeadLetter,
  type DeadLetterHistory,
  type DeadLetterRef,
  type DeadLettersOptions,
  listDeadLetters,
  readDeadLetter,
} from "./dead-letters.js";
import { type HandleOptions, handleOptionNames, handleTask, hasOutcome } from "./handle.js";
import type { Handled, InboxCounts, InboxMetrics } from "./handled.js";
import { copyOf } from "./identity.js";
import { Lanes } from "./lanes.js";
import { type Message, type MessageHandler, plainMessage } from "./message.js";
import { type AnyInboxOptions, checkOptions, type InboxOptions, type OperationInboxOptions, type Policy } from "./options.js";
import { discard, type RetryDeadLetterOptions, retryDeadLetter } from "./retry-dead-letter.js";
import { type AnyMessageHandler, type Task, taskOf, type Unkeyed } from "./task.js";

interface AnyInbox {
  readonly consumer: string;
  /** The name of the inbox's operation, if it has one. */
  readonly operation: string | undefined;
  /** Whether the inbox computes keys (option `key`, or an operation). If so, message ids may differ between redeliveries. */
  readonly keyed: boolean;
  /** Makes a message that could not be decoded a dead letter, under a key made from its id. */
  readonly refuse: (message: Message, error: unknown) => Promise<Handled<never>>;
  /** Lists dead letters, sorted by key, a page at a time. */
  readonly deadLetters: (options?: DeadLettersOptions) => Promise<readonly DeadLetter[]>;
  /** Returns a dead letter with its attempts; undefined if there is none. */
  readonly deadLetter: (ref: DeadLetterRef) => Promise<DeadLetterHistory | undefined>;
  /**
   * Removes a dead letter without processing it: copies of the message are duplicates from then on. Throws InvalidInputError
   * if there is no such dead letter, and RunningError while it is being retried.
   */
  readonly discard: (ref: DeadLetterRef) => Promise<void>;
  readonly metrics: InboxMetrics;
}

/** Handles each message effectively once. Throws only for wrong arguments or if the store fails: do not acknowledge the message then. */
export interface Inbox extends AnyInbox {
  /** Handles a message: runs `fn`, unless the message was handled before or is being handled elsewhere. */
  readonly handle: <Payload, Value>(
    message: Message<Payload>,
    fn: MessageHandler<Payload, Value>,
    options?: HandleOptions,
  ) => Promise<Handled<Value>>;
  /** Handles many messages. Returns one result per message, in the same order. */
  readonly handleBatch: <Payload, Value>(
    messages: readonly Message<Payload>[],
    fn: MessageHandler<Payload, Value>,
    options?: HandleOptions,
  ) => Promise<readonly Handled<Value>[]>;
  /**
   * Retries a dead letter: runs `fn` once more, with the same `effectKey`. It stays a dead letter until that succeeds. Throws
   * InvalidInputError if there is no such dead letter, or if its message was not stored and `options.message` is missing.
   */
  readonly retry: <Payload, Value>(
    ref: DeadLetterRef,
    fn: MessageHandler<Payload, Value>,
    options?: RetryDeadLetterOptions,
  ) => Promise<Handled<Value>>;
  /** @deprecated Use `retry`. */
  readonly redrive: Inbox["retry"];
}

/** An inbox whose handler is an operation. */
export interface OperationInbox<Value> extends AnyInbox {
  /** Handles a message: runs the operation, unless its key has an outcome or is running elsewhere. */
  readonly handle: (message: Message, fn?: undefined, options?: HandleOptions) => Promise<Handled<Value>>;
  /** Handles many messages. Returns one result per message, in the same order. */
  readonly handleBatch: (messages: readonly Message[], fn?: undefined, options?: HandleOptions) => Promise<readonly Handled<Value>[]>;
  /** Retries a dead letter, as `Inbox.retry` does, with the operation as its handler. */
  readonly retry: (ref: DeadLetterRef, fn?: undefined, options?: RetryDeadLetterOptions) => Promise<Handled<Value>>;
  /** @deprecated Use `retry`. */
  readonly redrive: OperationInbox<Value>["retry"];
}

/**
 * Creates an inbox, which handles each message effectively once: it recognizes copies, counts failed attempts, and keeps
 * messages that fail for good as dead letters. Throws InvalidInputError for wrong options, and ConfigurationError if `tx` is
 * set and the store has no transactions.
 *
 * @example
 * const inbox = createInbox(store, { consumer: "billing", key: key.template("{{payload.orderId}}-charge") });
 * const { status } = await inbox.handle(message, ({ payload }, { effectKey }) => provider.charge(payload, effectKey));
 * if (status === "retry" || status === "held") broker.nack(message); else broker.ack(message);
 */
export function createInbox<Input, Value>(store: Store, options: OperationInboxOptions<Input, Value>): OperationInbox<Value>;
export function createInbox(store: Store, options: InboxOptions): Inbox;
export function createInbox<Input, Value>(store: Store, options: InboxOptions | OperationInboxOptions<Input, Value>): unknown {
  const policy = checkOptions(store, options as AnyInboxOptions);
  const { consumer, order, concurrency } = policy;
  const lanes = new Lanes(store.clock, policy.leaseMs);
  const counts: InboxCounts = { processed: 0, duplicates: 0, held: 0, retried: 0, dead: 0, deadLettersRetried: 0 };

  async function handleOne(task: Task | Unkeyed, how: HandleOptions, gate: Gate): Promise<Handled> {
    const calledAt = isHeard("message") ? performance.now() : undefined;
    const { orderKey } = task.message;
    const handle = () => handleTask(policy, task, how, gate);
    const inLane = order === "perKey" && orderKey !== undefined;
    const isOver = () => hasOutcome(policy, task);
    const handled = inLane ? await lanes.run(orderKey, { id: copyOf(task), handle, isOver }) : await handle();
    counts[counterOf(handled)] += 1;
    if (calledAt !== undefined) reportHandled(policy, task.message.id, handled, performance.now() - calledAt);
    return handled;
  }

  async function retry(ref: DeadLetterRef, fn?: AnyMessageHandler, how: RetryDeadLetterOptions = {}): Promise<Handled> {
    const handled = await retryDeadLetter(policy, ref, fn, how);
    if (handled.status === "processed") counts.deadLettersRetried += 1;
    return handled;
  }

  return {
    consumer,
    operation: options.operation?.name,
    keyed: options.operation !== undefined || options.key !== undefined,
    async refuse(message: Message, error: unknown) {
      return await handleOne({ message: plainMessage(message), unkeyed: error }, {}, new Gate(1));
    },
    async handle(message: Message, fn?: AnyMessageHandler, how: HandleOptions = {}) {
      knownOptions("inbox.handle", how, handleOptionNames);
      return await handleOne(taskOf(policy, message, fn), how, new Gate(1));
    },
    async handleBatch(messages: readonly Message[], fn?: AnyMessageHandler, how: HandleOptions = {}) {
      knownOptions("inbox.handleBatch", how, handleOptionNames);
      checkBatch(messages);
      const gate = new Gate(concurrency);
      const tasks = messages.map((message) => () => taskOf(policy, message, fn));
      return await handleAll(tasks, (task) => handleOne(task, how, gate));
    },
    deadLetters: (asked: DeadLettersOptions = {}) => listDeadLetters(policy, asked),
    deadLetter: (ref: DeadLetterRef) => readDeadLetter(policy, ref),
    retry,
    redrive: retry,
    discard: (ref: DeadLetterRef) => discard(policy, ref),
    get metrics() {
      return { ...counts, redriven: counts.deadLettersRetried };
    },
  };
}

function reportHandled({ store, consumer: inbox }: Policy, id: string | undefined, handled: Handled, ms: number): void {
  const attempt = "attempt" in handled ? handled.attempt : undefined;
  publish("message", { type: "handled", store: store.name, inbox, id, outcome: handled.status, attempt, ms });
}

function counterOf(handled: Handled): keyof InboxCounts {
  if (handled.status === "dead") return handled.replayed ? "duplicates" : "dead";
  return ({ processed: "processed", duplicate: "duplicates", retry: "retried", held: "held" } as const)[handled.status];
}
