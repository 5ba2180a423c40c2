import type { Inbox, MessageHandler } from "onceflow/inbox";
import type { ConsumeOptions, Consuming } from "onceflow/inbox/nats";
import type { Ending } from "../../programs/end-process.js";
import type { ProviderName } from "../../servers/acquire.js";

/** What the tests send. */
export interface Order {
  readonly order: string;
}

export interface Sent {
  /** What its producer names it, where the broker has a place for that. */
  readonly id: string;
  readonly body: string;
}

export type ConsumerOptions = Pick<ConsumeOptions<Order>, "onError" | "concurrency"> & {
  readonly inbox: Inbox;
  readonly handle: MessageHandler<Order, unknown>;
};

/** A queue, stream or topic of a broker that no other test uses. */
export interface BrokerQueue {
  /** After so long without a word a message is handed out again. */
  readonly patienceMs: number;
  send(messages: readonly Sent[]): Promise<void>;
  /** `silent`: what it tells the broker while it works gets lost on the way. */
  consume(options: ConsumerOptions, how?: { readonly silent?: boolean }): Promise<Consuming>;
  /** How many messages the broker would still hand out, or wait for an answer to. */
  left(): Promise<number>;
  /** Whether a broker that was killed does not know it any more, where that can be. */
  isLost?(): Promise<boolean>;
  /** Where silence alone does not make the broker hand a message out again. */
  lose?(): Promise<void>;
  close(): Promise<void>;
}

/** How a message ends its process, and how many consumers there are. */
export interface Poisoning {
  readonly death: Ending;
  readonly consumers: number;
}

export type BrokerName = "bullmq" | "ioRedis" | "kafka" | "nats" | "nodeRedis" | "rabbitmq" | "sqs";

export interface Broker {
  readonly name: BrokerName;
  readonly title: string;
  readonly server: ProviderName;
  /** Opens the queue with this name, which is made if it does not exist, with about this patience. */
  open(url: string, name: string, patienceMs: number): Promise<BrokerQueue>;
  /** A message that has to come again stays with its consumer until then. */
  readonly keeps?: true;
  /** How messages kill their consumers here; no two brokers need all the ways. */
  readonly poisonings: readonly Poisoning[];
  /** Tests that this broker cannot be asked to pass, and why. */
  readonly cannot?: { readonly [test in "extend" | "undecodable"]?: string };
}
