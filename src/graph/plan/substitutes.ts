import type { Place } from "../findings/finding.js";

/**
 * Fields that the runtime does not support as written, with what it does instead. The name of a substitute is the name of its
 * field: a flow with such a field runs only if the user enables the substitute by that name.
 */
export const substitutes = {
  stream: "the store delivers the packets durably; they are not sent to a broker",
  store: "the runtime's store keeps the packets and keys",
  backend: "packets wait in the memory of the process and are lost if it dies",
  recovery: "a packet of a direct or ephemeral edge is not in the store: if its process dies, it is lost",
  protocol: "the node is called in the process of the runtime",
  runtime: "the node passed to the runtime is called in the process of the runtime",
  subworkflow: "the child flow gets the whole packet, and the node fails if the child has dead letters; `execution.timeoutMs` limits it",
  execution: "a direct call is part of the delivery before it, which has its own timeout, retries and concurrency",
  runtimeBindings: "the runtime uses its own settings",
  "x-runtime": "the runtime uses its own settings",
  "x-alerts": "only the webhook of a node's onDeadLetter is called",
  idempotencyKey: "the key is passed to the node, but a second packet with the same key is delivered, too",
  retryPolicy: "a direct call is made once; if it fails, the delivery before it fails",
  deadLetterQueue: "if a direct call fails, the packet of the delivery before it becomes the dead letter",
  timeout: "a direct call has the timeout of the delivery before it",
  ordering: "packets are delivered in no guaranteed order",
  partitionKey: "packets are delivered in no guaranteed order; a partition key requires ordering: perKey",
  batching: "each packet is delivered by itself",
  priority: "packets are delivered in the order in which they were sent",
  maxInFlight: "only the concurrency of the node limits deliveries",
  checkpointInterval: "each packet is saved when its node has returned",
  topic: "the edge has no broker",
  consumerGroup: "the edge has no broker",
  maxLen: "the edge has no queue in memory",
} as const;

/** A substitute that a user can enable: see the option `substitutes` of `createRuntime`. */
export type Substitute = keyof typeof substitutes;

export const substituteNames = Object.keys(substitutes) as readonly Substitute[];

/** A field that the runtime does not support as written. */
export interface Unsupported {
  readonly substitute: Substitute;
  /** The field and its value: `backend: redis`. */
  readonly asked: string;
  readonly place: Place;
  /** Set: the field is supported if the runtime has code or an address for the node with this operationId. */
  readonly operationId?: string;
}

/** The fix for a finding: how to run a document with such a field. */
export function optIn(substitute: Substitute): string {
  return `remove it, or run with substitutes: ["${substitute}"]`;
}
