import type { Place } from "../findings/finding.js";
import type {
  Alert,
  BackendName,
  BusName,
  DeliveryMode,
  DocumentInfo,
  ExecutionLimits,
  NodeKind,
  NodeRuntime,
  orderings,
  Protocol,
  Recovery,
  RetryPolicy,
  StoreName,
  Webhook,
} from "../normalise/model.js";
import type { Expression } from "./expression.js";
import type { KeyMaker } from "./key-maker.js";
import type { PacketType } from "./packets.js";
import type { Unsupported } from "./substitutes.js";

/** A flow with all names, ports, packets, policies and defaults resolved: everything that is needed to run it. */
export interface FlowPlan {
  readonly id: string;
  readonly document: DocumentInfo;
  readonly summary?: string;
  readonly description?: string;
  readonly tags: readonly string[];
  readonly nodes: ReadonlyMap<string, PlannedNode>;
  readonly edges: readonly PlannedEdge[];
  /** Entry points. */
  readonly entries: readonly PlannedEntry[];
  /** Node ids in topological order. */
  readonly order: readonly string[];
  /** Fields that the runtime does not support as written: the flow runs only if these substitutes are enabled. */
  readonly unsupported: readonly Unsupported[];
  /** `x-runtime.mongodb.idempotencyKeys`: the collection for the keys of the flow, if the runtime's store is MongoDB. */
  readonly keyCollection?: { readonly name: string; readonly place: Place };
  readonly place: Place;
}

/** A node of a plan. */
export interface PlannedNode {
  readonly id: string;
  readonly operationId: string;
  readonly kind: NodeKind;
  readonly title?: string;
  readonly summary?: string;
  readonly description?: string;
  /** Empty if the document declares none: then the node has one input, `in`. */
  readonly inputs: readonly PlannedPort[];
  /** Empty if the document declares none: then every edge takes the packets of every port. */
  readonly outputs: readonly PlannedPort[];
  /** Includes the flow's defaults. */
  readonly execution: ExecutionLimits;
  readonly settings: Readonly<Record<string, unknown>>;
  readonly runtime?: NodeRuntime;
  /** For a node of kind subworkflow with a `workflowRef`: the flow that it runs, and the file of that flow if it is another one. */
  readonly child?: { readonly flow: string; readonly file?: string };
  readonly alert?: Alert;
  readonly extensions: Readonly<Record<string, unknown>>;
  readonly incoming: readonly PlannedEdge[];
  readonly outgoing: readonly PlannedEdge[];
  readonly place: Place;
}

/** A port of a planned node. */
export interface PlannedPort {
  readonly name: string;
  readonly description?: string;
  readonly packet?: PacketType;
  /** Of an input. False: a node with several inputs runs without this one if no packet can fill it any more. */
  readonly required?: boolean;
}

/** An edge of a plan. */
export interface PlannedEdge {
  /** `from.port->to.port`: independent of the edge's position in the document. */
  readonly id: string;
  /** Without a port: packets of all ports. */
  readonly from: { readonly node: string; readonly port?: string };
  readonly to: { readonly node: string; readonly port: string };
  readonly description?: string;
  readonly packet?: PacketType;
  /** The edge takes only packets for which this is true. */
  readonly when?: Expression<boolean>;
  readonly protocol?: Protocol;
  readonly delivery: PlannedDelivery;
  readonly place: Place;
}

/** An entry point of a plan. */
export interface PlannedEntry {
  readonly node: string;
  readonly port: string;
  readonly packet?: PacketType;
  readonly filter?: Expression<boolean>;
  /** The HTTP API serves this entry point as a webhook. */
  readonly webhook?: Webhook;
  /** Durable; direct if all edges of the flow are direct or ephemeral, because such a flow stores nothing. */
  readonly delivery: PlannedDelivery;
}

/** A delivery, resolved from the edge, its policy, the flow's defaults and the built-in defaults. */
export interface PlannedDelivery {
  readonly mode: DeliveryMode;
  readonly retry: RetryPolicy;
  /** Name of the dead-letter queue. Undefined: packets that fail for good are dropped. */
  readonly deadLetters?: string;
  readonly key?: PlannedKey;
  readonly timeoutMs?: number;
  /** 0 to 10; higher priorities are delivered first. */
  readonly priority: number;
  readonly ordering: (typeof orderings)[number];
  readonly inFlightMax?: number;
  readonly batch: { readonly size: number; readonly waitMs: number };
  readonly checkpointEvery: number;
  readonly recovery?: Recovery;
  /** For durable and checkpoint edges. Undefined: the runtime's store. */
  readonly store?: StoreName;
  /** For ephemeral edges. */
  readonly queue?: { readonly backend: BackendName; readonly name: string; readonly lengthMax?: number };
  /** For stream edges. */
  readonly stream?: { readonly bus: BusName; readonly topic: string; readonly consumerGroup?: string };
  readonly partitionKey?: KeyMaker;
}

/** The idempotency key of a delivery. */
export interface PlannedKey extends KeyMaker {
  /** Where the key is declared: on the edge, or on its target node. */
  readonly from: "edge" | "node";
  readonly retentionMs: number;
  readonly store?: StoreName;
}
