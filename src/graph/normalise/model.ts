import type { Spot } from "../load/tree.js";

/** What a document says, whichever dialect it is written in. Names are resolved later, in the plan. */
export interface FlowDocument {
  readonly file: string;
  readonly info: DocumentInfo;
  readonly flows: readonly Flow[];
}

export interface DocumentInfo {
  readonly title: string;
  readonly version: string;
  readonly description?: string;
}

export const nodeKinds = [
  "source",
  "transform",
  "router",
  "llm",
  "action",
  "checkpoint",
  "publish",
  "terminal",
  "integration",
  "subworkflow",
] as const;
export type NodeKind = (typeof nodeKinds)[number];

export const deliveryModes = ["direct", "ephemeral", "checkpoint", "durable", "stream"] as const;
export type DeliveryMode = (typeof deliveryModes)[number];

export const protocols = ["proc", "grpc", "http", "nats", "kafka", "redis", "zeromq", "rabbitmq", "websocket"] as const;
export type Protocol = (typeof protocols)[number];

export const storeNames = ["mongo", "postgres", "sqlite", "redis", "memory"] as const;
export type StoreName = (typeof storeNames)[number];

export const backendNames = ["memory", "redis", "nats", "rabbitmq"] as const;
export type BackendName = (typeof backendNames)[number];

export const busNames = ["kafka", "redis", "nats"] as const;
export type BusName = (typeof busNames)[number];

export const backoffs = ["fixed", "linear", "exponential"] as const;
export const orderings = ["none", "perKey", "strict"] as const;
export const recoveryStrategies = ["replayFromCheckpoint", "replayFromEntrypoint", "skip", "fail"] as const;

export interface Flow {
  readonly id: string;
  readonly summary?: string;
  readonly description?: string;
  readonly tags: readonly string[];
  readonly entrypoints: readonly Entrypoint[];
  readonly nodes: readonly Node[];
  readonly edges: readonly Edge[];
  readonly defaults: { readonly retry?: RetryPolicy; readonly execution: ExecutionLimits };
  readonly spot: Spot;
}

/** Where packets come in: a node by its id, or every node that takes this message. */
export interface Entrypoint {
  readonly node?: string;
  readonly message?: Message;
  readonly filter?: Written;
  readonly spot: Spot;
}

/** A text with its place, still to be compiled. */
export interface Written {
  readonly text: string;
  readonly spot: Spot;
}

/** Which packet travels: a reference (`#/components/packets/Order`, `Order`, `asyncapi#/…`), or a schema on the spot. */
export interface Message {
  readonly ref?: string;
  readonly spot: Spot;
}

export interface Node {
  readonly id: string;
  readonly operationId: string;
  readonly kind: NodeKind;
  readonly title?: string;
  readonly summary?: string;
  readonly description?: string;
  readonly inputs: readonly Port[];
  readonly outputs: readonly Port[];
  readonly runtime?: NodeRuntime;
  readonly execution: ExecutionLimits;
  readonly idempotency?: NodeIdempotency;
  readonly settings: Readonly<Record<string, unknown>>;
  readonly alert?: Alert;
  readonly extensions: Readonly<Record<string, unknown>>;
  readonly spot: Spot;
}

export interface Port {
  readonly name: string;
  readonly description?: string;
  readonly message?: Message;
  readonly spot: Spot;
}

export interface NodeRuntime {
  readonly language?: "go" | "python" | "nodejs";
  readonly handler?: string;
  readonly supports: readonly Protocol[];
  readonly image?: string;
  readonly version?: string;
  readonly grpc?: { readonly port?: number; readonly streaming?: boolean; readonly streamsMax?: number; readonly tls?: boolean };
  /** Connections of other protocols, as they are written. */
  readonly connections: Readonly<Record<string, unknown>>;
}

/** `execution` of a node, or of the defaults: limits of the calls of a node. Public as `Execution`. */
export interface ExecutionLimits {
  readonly timeoutMs?: number;
  readonly concurrency?: number;
  readonly maxRetries?: number;
}

export interface NodeIdempotency {
  readonly key: Written;
  readonly ttlMs?: number;
  readonly store?: StoreName;
}

/** `x-alerts.onDeadLetter` */
export interface Alert {
  readonly webhook: string;
  readonly message?: string;
}

export interface RetryPolicy {
  /** All of them, the first included. */
  readonly maxAttempts: number;
  readonly backoff: (typeof backoffs)[number];
  readonly initialDelayMs: number;
  readonly maxDelayMs: number;
  /** ±20 % */
  readonly jitter: boolean;
  /** Codes of errors that are tried again; undefined: all that may be. */
  readonly retryOn?: readonly string[];
}

export interface Recovery {
  readonly replayFrom?: string;
  readonly strategy?: (typeof recoveryStrategies)[number];
}

export interface Edge {
  readonly from: Written;
  readonly to: Written;
  readonly description?: string;
  readonly when?: Written;
  readonly protocol?: Protocol;
  readonly message?: Message;
  readonly delivery: Delivery;
  readonly spot: Spot;
}

export interface Delivery {
  readonly mode: DeliveryMode;
  readonly retry?: RetryPolicy;
  readonly key?: Written;
  /** How long a completed key is remembered. */
  readonly keyTtlMs?: number;
  /** False: what fails for good is dropped. A text: the name of the queue. */
  readonly deadLetters?: boolean | string;
  readonly timeoutMs?: number;
  readonly priority?: number;
  readonly store?: StoreName;
  readonly backend?: BackendName;
  readonly batchSize?: number;
  readonly batchWaitMs?: number;
  readonly checkpointEvery?: number;
  readonly inFlightMax?: number;
  readonly ordering?: (typeof orderings)[number];
  readonly recovery?: Recovery;
  readonly bus?: BusName;
  readonly topic?: string;
  readonly consumerGroup?: string;
  readonly partitionKey?: Written;
  readonly queue?: string;
  readonly queueLengthMax?: number;
  /** As it was written, to say which fields its mode does not use. */
  readonly spot: Spot;
}
