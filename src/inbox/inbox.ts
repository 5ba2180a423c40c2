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
import { type HandleOptions, handleTask, hasOutcome } from "./handle.js";
import type { Handled, InboxCounts, InboxMetrics } from "./handled.js";
import { copyOf } from "./identity.js";
import { Lanes } from "./lanes.js";
import { type Message, type MessageHandler, plainMessage } from "./message.js";
import { type AnyInboxOptions, checkOptions, type InboxOptions, type OperationInboxOptions } from "./options.js";
import { discard, type RedriveOptions, redrive } from "./redrive.js";
import { type AnyMessageHandler, type Task, taskOf, type Unkeyed } from "./task.js";

interface AnyInbox {
  readonly consumer: string;
  /** The name of its operation, where it has one. */
  readonly operation: string | undefined;
  /** Whether keys are made here, by `key` or by the operation: then the ids of messages need not be the same at every redelivery. */
  readonly keyed: boolean;
  /** Makes a dead letter of a message that cannot be handled, under a key of its own: who delivers it could not even read it. */
  readonly refuse: (message: Message, error: unknown) => Promise<Handled<never>>;
  /** Dead letters, by key, a page at a time. */
  readonly deadLetters: (options?: DeadLettersOptions) => Promise<readonly DeadLetter[]>;
  /** One of them, with the history of its attempts. */
  readonly deadLetter: (ref: DeadLetterRef) => Promise<DeadLetterHistory | undefined>;
  /** Takes one out without processing it: its copies are duplicates from now on. */
  readonly discard: (ref: DeadLetterRef) => Promise<void>;
  readonly metrics: InboxMetrics;
}

/** Handles messages, each once. Throws only when the store fails, or the caller is wrong: then do not acknowledge. */
export interface Inbox extends AnyInbox {
  readonly handle: <Payload, Value>(
    message: Message<Payload>,
    fn: MessageHandler<Payload, Value>,
    options?: HandleOptions,
  ) => Promise<Handled<Value>>;
  /** One answer per message, in their order. */
  readonly handleBatch: <Payload, Value>(
    messages: readonly Message<Payload>[],
    fn: MessageHandler<Payload, Value>,
    options?: HandleOptions,
  ) => Promise<readonly Handled<Value>[]>;
  /** Tries a dead letter once more, with the same `effectKey`. */
  readonly redrive: <Payload, Value>(
    ref: DeadLetterRef,
    fn: MessageHandler<Payload, Value>,
    options?: RedriveOptions,
  ) => Promise<Handled<Value>>;
}

/** An inbox whose handler is its operation. */
export interface OperationInbox<Value> extends AnyInbox {
  readonly handle: (message: Message, fn?: undefined, options?: HandleOptions) => Promise<Handled<Value>>;
  readonly handleBatch: (messages: readonly Message[], fn?: undefined, options?: HandleOptions) => Promise<readonly Handled<Value>[]>;
  readonly redrive: (ref: DeadLetterRef, fn?: undefined, options?: RedriveOptions) => Promise<Handled<Value>>;
}

/**
 * Consumes messages once each: copies are told from new ones, failures are counted, and what never succeeds is put aside.
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
  const counts: InboxCounts = { processed: 0, duplicates: 0, held: 0, retried: 0, dead: 0, redriven: 0 };

  async function handleOne(task: Task | Unkeyed, how: HandleOptions, gate: Gate): Promise<Handled> {
    const { orderKey } = task.message;
    const handle = () => handleTask(policy, task, how, gate);
    const inLane = order === "perKey" && orderKey !== undefined;
    const isOver = () => hasOutcome(policy, task);
    const handled = inLane ? await lanes.run(orderKey, { id: copyOf(task), handle, isOver }) : await handle();
    counts[counterOf(handled)] += 1;
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
      return await handleOne(taskOf(policy, message, fn), how, new Gate(1));
    },
    async handleBatch(messages: readonly Message[], fn?: AnyMessageHandler, how: HandleOptions = {}) {
      checkBatch(messages);
      const gate = new Gate(concurrency);
      const tasks = messages.map((message) => () => taskOf(policy, message, fn));
      return await handleAll(tasks, (task) => handleOne(task, how, gate));
    },
    deadLetters: (asked: DeadLettersOptions = {}) => listDeadLetters(policy, asked),
    deadLetter: (ref: DeadLetterRef) => readDeadLetter(policy, ref),
    async redrive(ref: DeadLetterRef, fn?: AnyMessageHandler, how: RedriveOptions = {}) {
      const handled = await redrive(policy, ref, fn, how);
      if (handled.status === "processed") counts.redriven += 1;
      return handled;
    },
    discard: (ref: DeadLetterRef) => discard(policy, ref),
    get metrics() {
      return { ...counts };
    },
  };
}

function counterOf(handled: Handled): keyof InboxMetrics {
  if (handled.status === "dead") return handled.replayed ? "duplicates" : "dead";
  return ({ processed: "processed", duplicate: "duplicates", retry: "retried", held: "held" } as const)[handled.status];
}
