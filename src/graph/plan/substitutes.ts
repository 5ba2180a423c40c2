import type { Place } from "../findings/finding.js";

/**
 * Everything that a document can ask for and the runtime does not do, and what the runtime does instead. The name of a
 * substitute is the name of its field: a flow with such a field runs only where the user opts in by that name.
 */
export const substitutes = {
  stream: "the store delivers the packets durably, and no broker gets them",
  store: "the store of the runtime keeps the packets and keys",
  backend: "packets wait in the memory of the process, and are lost if it dies",
  recovery: "a packet of a direct or ephemeral edge is not in the store: if its process dies, it is lost",
  protocol: "the node is called in the process of the runtime",
  runtime: "the node that is given to the runtime is called in its process",
  execution: "a direct call is part of the delivery before it, which has its own timeout, retries and concurrency",
  runtimeBindings: "the runtime uses its own settings",
  "x-runtime": "the runtime uses its own settings",
  "x-alerts": "only the webhook of a node's onDeadLetter is called",
  idempotencyKey: "the key is given to the node, and a second packet with it is delivered too",
  retryPolicy: "a direct call is made once; if it fails, the delivery before it fails",
  deadLetterQueue: "if a direct call fails, the packet of the delivery before it becomes the dead letter",
  timeout: "a direct call has the timeout of the delivery before it",
  ordering: "packets are delivered as they come",
  partitionKey: "packets are delivered as they come; a partition key needs ordering: perKey",
  batching: "each packet is delivered by itself",
  priority: "packets are delivered in the order in which they were sent",
  maxInFlight: "the concurrency of the node is the only bound",
  checkpointInterval: "each packet is saved when its node has returned",
  topic: "the edge has no broker",
  consumerGroup: "the edge has no broker",
  maxLen: "the edge has no queue in memory",
} as const;

/** What a user can opt into: see `substitutes` of `createRuntime`. */
export type Substitute = keyof typeof substitutes;

export const substituteNames = Object.keys(substitutes) as readonly Substitute[];

/** A field that the runtime does not act on as it is written. */
export interface Unsupported {
  readonly substitute: Substitute;
  /** What is written there: `backend: redis`. */
  readonly asked: string;
  readonly place: Place;
}

/** How to run a document with such a field all the same. */
export function optIn(substitute: Substitute): string {
  return `remove it, or run with substitutes: ["${substitute}"]`;
}
