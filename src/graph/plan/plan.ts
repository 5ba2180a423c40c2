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
} from "../normalise/model.js";
import type { Expression } from "./expression.js";
import type { KeyMaker } from "./key-maker.js";
import type { PacketType } from "./packets.js";
import type { Unsupported } from "./substitutes.js";

/** A flow with everything resolved: names, ports, packets, policies, defaults. What runs a flow needs nothing else. */
export interface FlowPlan {
  readonly id: string;
  readonly document: DocumentInfo;
  readonly summary?: string;
  readonly description?: string;
  readonly tags: readonly string[];
  readonly nodes: ReadonlyMap<string, PlannedNode>;
  readonly edges: readonly PlannedEdge[];
  /** Where packets come in from outside. */
  readonly entries: readonly PlannedEntry[];
  /** Ids of nodes, each behind everything that leads to it. */
  readonly order: readonly string[];
  /** What it asks for and the runtime does not do: it runs only where the user has opted into these substitutes. */
  readonly unsupported: readonly Unsupported[];
  readonly place: Place;
}

export interface PlannedNode {
  readonly id: string;
  readonly operationId: string;
  readonly kind: NodeKind;
  readonly title?: string;
  readonly summary?: string;
  readonly description?: string;
  /** Empty: the document does not say; packets come in by `in`. */
  readonly inputs: readonly PlannedPort[];
  /** Empty: the document does not say; every port is followed by every edge. */
  readonly outputs: readonly PlannedPort[];
  /** The flow's defaults included. */
  readonly execution: ExecutionLimits;
  readonly settings: Readonly<Record<string, unknown>>;
  readonly runtime?: NodeRuntime;
  readonly alert?: Alert;
  readonly extensions: Readonly<Record<string, unknown>>;
  readonly incoming: readonly PlannedEdge[];
  readonly outgoing: readonly PlannedEdge[];
  readonly place: Place;
}

export interface PlannedPort {
  readonly name: string;
  readonly description?: string;
  readonly packet?: PacketType;
}

export interface PlannedEdge {
  /** `from.port->to.port`: the same as long as these names are, wherever the edge stands in the document. */
  readonly id: string;
  /** Without a port: whatever the node sends. */
  readonly from: { readonly node: string; readonly port?: string };
  readonly to: { readonly node: string; readonly port: string };
  readonly description?: string;
  readonly packet?: PacketType;
  /** Only packets for which this is true travel here. */
  readonly when?: Expression<boolean>;
  readonly protocol?: Protocol;
  readonly delivery: PlannedDelivery;
  readonly place: Place;
}

export interface PlannedEntry {
  readonly node: string;
  readonly port: string;
  readonly packet?: PacketType;
  readonly filter?: Expression<boolean>;
  /** Durable; direct where every edge of the flow is direct or ephemeral: then nothing of it is kept anyway. */
  readonly delivery: PlannedDelivery;
}

/** Everything that an edge, its policy, the flow's defaults and ours say about a delivery. */
export interface PlannedDelivery {
  readonly mode: DeliveryMode;
  readonly retry: RetryPolicy;
  /** Undefined: what fails for good is dropped. */
  readonly deadLetters?: string;
  readonly key?: PlannedKey;
  readonly timeoutMs?: number;
  /** 0 to 10; higher goes first. */
  readonly priority: number;
  readonly ordering: (typeof orderings)[number];
  readonly inFlightMax?: number;
  readonly batch: { readonly size: number; readonly waitMs: number };
  readonly checkpointEvery: number;
  readonly recovery?: Recovery;
  /** Of durable and checkpoint. Undefined: the store that the runtime is given. */
  readonly store?: StoreName;
  /** Of ephemeral. */
  readonly queue?: { readonly backend: BackendName; readonly name: string; readonly lengthMax?: number };
  /** Of stream. */
  readonly stream?: { readonly bus: BusName; readonly topic: string; readonly consumerGroup?: string };
  readonly partitionKey?: KeyMaker;
}

export interface PlannedKey extends KeyMaker {
  /** Who asks for it: the edge itself, or the node that it leads to. */
  readonly from: "edge" | "node";
  readonly retentionMs: number;
  readonly store?: StoreName;
}
