import type { Spot } from "../load/tree.js";

/** The content of a document of either dialect. Names are resolved later, in the plan. */
export interface FlowDocument {
  readonly file: string;
  readonly info: DocumentInfo;
  readonly flows: readonly Flow[];
}

/** `info` of a document. */
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
/** The kind of a node. */
export type NodeKind = (typeof nodeKinds)[number];

export const deliveryModes = ["direct", "ephemeral", "checkpoint", "durable", "stream"] as const;
/** How an edge delivers packets. */
export type DeliveryMode = (typeof deliveryModes)[number];

export const protocols = ["proc", "grpc", "http", "nats", "kafka", "redis", "zeromq", "rabbitmq", "websocket"] as const;
/** `protocol` of an edge. The runtime supports `proc`, `http` and `grpc`. */
export type Protocol = (typeof protocols)[number];

export const storeNames = ["mongo", "postgres", "sqlite", "redis", "memory"] as const;
/** `store` of a durable edge. */
export type StoreName = (typeof storeNames)[number];

export const backendNames = ["memory", "redis", "nats", "rabbitmq"] as const;
/** `backend` of an ephemeral edge. */
export type BackendName = (typeof backendNames)[number];

export const busNames = ["kafka", "redis", "nats"] as const;
/** `bus` of a stream edge. */
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
  readonly runtime: FlowRuntime;
  readonly spot: Spot;
}

/** `x-runtime` of a flow, as far as the runtime reads it. */
export interface FlowRuntime {
  /** `x-runtime.mongodb.idempotencyKeys`: the collection for the flow's keys, if the runtime's store is MongoDB. */
  readonly keyCollection?: Written;
}

/** An entry point: a node by its id, or every node that takes this message. */
export interface Entrypoint {
  readonly node?: string;
  readonly message?: Message;
  readonly filter?: Written;
  readonly webhook?: Webhook;
  readonly spot: Spot;
}

/** An entry point of kind `webhook`: the HTTP API serves it, and checks the signature of each request. */
export interface Webhook {
  /** Begins with `/webhooks/`. */
  readonly path: string;
  readonly method: "POST" | "PUT";
  readonly signature: WebhookSignature;
  /** The id of the event, by which a repeated delivery is recognized. */
  readonly key: WebhookKey;
}

/** How a webhook's requests are signed. `secrets`: names of environment variables; a signature by any of the secrets is valid. */
export type WebhookSignature =
  | { readonly scheme: "stripe" | "standard-webhooks"; readonly secrets: readonly string[]; readonly toleranceMs: number }
  | { readonly scheme: "github"; readonly secrets: readonly string[] }
  | {
      readonly scheme: "hmac";
      readonly secrets: readonly string[];
      /** The header with the signature, in lower case. */
      readonly header: string;
      readonly algorithm: "sha256" | "sha384" | "sha512";
      readonly encoding: "hex" | "base64";
      /** What the header has before the signature, such as `sha256=`. */
      readonly prefix: string;
      /** What is signed: `{body}`, and `{timestamp}` if there is a timestamp. */
      readonly content: string;
      /** The header with the time of the request in seconds since 1970, and how old it may be. */
      readonly timestamp?: { readonly header: string; readonly toleranceMs: number };
    };

/** Where a webhook's key is: a field of the payload, or a header in lower case. */
export type WebhookKey =
  | { readonly from: "payload"; readonly path: readonly string[] }
  | { readonly from: "header"; readonly name: string };

/** A text with its position, not yet compiled. */
export interface Written {
  readonly text: string;
  readonly spot: Spot;
}

/** The packet of a port or an edge: a reference (`#/components/packets/Order`, `Order`, `asyncapi#/…`), or an inline schema. */
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
  /** The flow that a node of kind subworkflow runs. */
  readonly workflowRef?: Written;
  readonly alert?: Alert;
  readonly extensions: Readonly<Record<string, unknown>>;
  readonly spot: Spot;
}

export interface Port {
  readonly name: string;
  readonly description?: string;
  readonly message?: Message;
  /** Of an input. False: the node can run without a packet at this port. */
  readonly required?: boolean;
  readonly spot: Spot;
}

/** `runtime` of a node. */
export interface NodeRuntime {
  readonly language?: "go" | "python" | "nodejs";
  readonly handler?: string;
  readonly supports: readonly Protocol[];
  readonly image?: string;
  readonly version?: string;
  /** Where a node server has the node, over HTTP. `tokenEnv`: environment variable with its token. */
  readonly http?: { readonly url: string; readonly tokenEnv?: string };
  /** Where a node server has the node, over gRPC. Without a host: this machine. */
  readonly grpc?: {
    readonly host?: string;
    readonly port?: number;
    readonly streaming?: boolean;
    readonly streamsMax?: number;
    readonly tls?: boolean;
    readonly tokenEnv?: string;
  };
  /** Connections of other protocols, as written in the document. */
  readonly connections: Readonly<Record<string, unknown>>;
}

/** `execution` of a node or of the flow's defaults: limits on calls of a node. Exported as `Execution`. */
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

/** `x-alerts.onDeadLetter` of a node: a webhook to call when a packet for it becomes a dead letter. */
export interface Alert {
  readonly webhook: string;
  readonly message?: string;
}

/** `retryPolicy` of a delivery. */
export interface RetryPolicy {
  /** Total number of attempts, including the first. */
  readonly maxAttempts: number;
  readonly backoff: (typeof backoffs)[number];
  readonly initialDelayMs: number;
  readonly maxDelayMs: number;
  /** Varies each delay by up to 20 %. */
  readonly jitter: boolean;
  /** Error codes to retry; undefined: all retryable codes. */
  readonly retryOn?: readonly string[];
}

/** `recovery` of a delivery: what happens to packets whose worker died. */
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
  /** False: packets that fail for good are dropped. A string: the name of the dead-letter queue. */
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
  /** The delivery as written, to report fields that its mode does not use. */
  readonly spot: Spot;
}
