import type { Inbox, MessageHandler } from "onceflow/inbox";
import type { ConsumeOptions, Consuming } from "onceflow/inbox/nats";
import type { Ending } from "../../programs/end-process.js";
import type { ProviderName } from "../../servers/acquire.js";

/** The payload of the tests' messages. */
export interface Order {
  readonly order: string;
}

export interface Sent {
  /** The message id that the producer sets, if the broker supports one. */
  readonly id: string;
  readonly body: string;
}

export type ConsumerOptions = Pick<ConsumeOptions<Order>, "onError" | "concurrency"> & {
  readonly inbox: Inbox;
  readonly handle: MessageHandler<Order, unknown>;
};

/** A queue, stream or topic of a broker that no other test uses. */
export interface BrokerQueue {
  /** The broker redelivers a message after this time without an acknowledgement or extension. */
  readonly patienceMs: number;
  send(messages: readonly Sent[]): Promise<void>;
  /** `silent`: the broker does not receive the extensions that the consumer sends while it works. */
  consume(options: ConsumerOptions, how?: { readonly silent?: boolean }): Promise<Consuming>;
  /** Number of messages that the broker has not delivered yet, or that are not acknowledged. */
  left(): Promise<number>;
  /** Returns whether a killed broker has lost the queue, for brokers that may. */
  isLost?(): Promise<boolean>;
  /** Breaks the connection, for brokers that do not redeliver after silence alone. */
  lose?(): Promise<void>;
  close(): Promise<void>;
}

/** How a message kills its process, and how many consumers there are. */
export interface Poisoning {
  readonly death: Ending;
  readonly consumers: number;
}

export type BrokerName = "bullmq" | "ioRedis" | "kafka" | "nats" | "nodeRedis" | "rabbitmq" | "sqs";

export interface Broker {
  readonly name: BrokerName;
  readonly title: string;
  readonly server: ProviderName;
  /** Opens the queue with this name and about this patience. Creates the queue if it does not exist. */
  open(url: string, name: string, patienceMs: number): Promise<BrokerQueue>;
  /** The consumer keeps a message until its next attempt; the broker does not redeliver it. */
  readonly keeps?: true;
  /** How messages kill their consumers here. The brokers share the combinations among them. */
  readonly poisonings: readonly Poisoning[];
  /** Tests that this broker cannot pass, with the reason. */
  readonly cannot?: { readonly [test in "extend" | "undecodable"]?: string };
}
