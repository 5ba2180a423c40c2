import { InvalidInputError } from "../../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../../core/errors/known-options.js";
import { duration, leaseMsMax, leaseMsMin, oneOf } from "../../core/ledger/options.js";
import { requireStore } from "../../core/store/require-store.js";
import type { Store } from "../../core/store/store.js";
import type { WorkflowFunction } from "../../workflow/define/definition.js";
import { checkReferences, type FlowSource, type LoadOptions } from "../load/load-flows.js";
import type { NodesOption } from "../node/given-nodes.js";
import type { FlowPlan } from "../plan/plan.js";
import { type Substitute, substituteNames } from "../plan/substitutes.js";
import { checkPrivateWebhooks, type PrivateWebhooks } from "./alerts/private-address.js";
import { type HistoryLevel, type HistoryOptions, type HistorySettings, historySettings } from "./history/history-options.js";

/** Options of `createRuntime`. */
export interface RuntimeOptions extends LoadOptions {
  readonly store: Store;
  /** Paths of flow documents, their texts, or loaded plans. */
  readonly documents: readonly (FlowSource | FlowPlan)[];
  /** Nodes by operationId (functions, objects of classes that extend BaseNode, ready-made nodes of onceflow/nodes), or a list of the latter two. */
  readonly nodes?: NodesOption;
  /**
   * Registry of node servers: a path (YAML or JSON), or its text. Nodes that are not in `nodes` are called there, in other
   * processes. Default: only where a document has the address of a node.
   */
  readonly registry?: FlowSource;
  /** Durable workflows that nodes of kind `subworkflow` may name. */
  readonly workflows?: Readonly<Record<string, WorkflowFunction>>;
  /** True: nodes may be missing here, because other processes run them. Default false: a missing node is an error. */
  readonly partial?: boolean;
  /** False: this process triggers and reads, but delivers no packets. Default true. */
  readonly work?: boolean;
  /** Maximum number of packets that this process delivers at the same time. Default 100. */
  readonly concurrency?: number;
  /** How long this process may go without a heartbeat before other processes take over its packets. Default 30 s. */
  readonly leaseMs?: number;
  /** How often the store is polled for packets of which no notification arrived. Default 1 s. */
  readonly pollMs?: number;
  /** Time limit of a delivery whose edge and node have none. Default 10 minutes. */
  readonly timeoutMs?: number;
  /** How long a node may continue after its time limit before the packet is retried. Default 5 s. */
  readonly graceMs?: number;
  /** How many workers may die while a packet is the only one they deliver, before it becomes a dead letter. Default 10. */
  readonly crashMax?: number;
  /** How long a packet waits at a node until all ports of the node are filled. Default one day. */
  readonly joinWaitMs?: number;
  /** What to do with a packet whose key was completed by a different packet: acknowledge with a note (default), or dead letter. */
  readonly onMismatch?: "acknowledge" | "deadLetter";
  /** How long executions (after their end) and keys of triggers are kept. Default 30 days. */
  readonly retentionMs?: number | "forever";
  /** How long dead letters are kept. Default 30 days. */
  readonly deadLetterRetentionMs?: number | "forever";
  /**
   * Unsupported fields that documents may have, by name: `["backend", "store"]`. For each, the runtime does what the reference of
   * documents describes instead. Default none: a flow with such a field does not run.
   */
  readonly substitutes?: readonly Substitute[];
  /** "store": same as `substitutes: ["stream"]`. Default "refuse". */
  readonly streams?: "refuse" | "store";
  /**
   * Whether alerts (`x-alerts`) may be sent to loopback, private and link-local addresses: "refuse" (default), "allow", or a
   * list of allowed hosts, spelled as in the webhooks.
   */
  readonly privateWebhooks?: PrivateWebhooks;
  /**
   * Keeps a history of each execution: "none" (default), "timing", or "full", which also keeps the beginning of inputs and outputs. An object
   * sets it for single flows, and its limits. All processes of a flow should have the same setting.
   */
  readonly history?: HistoryLevel | HistoryOptions;
  /** Source of the jitter of retries, from 0 to 1. Default Math.random. */
  readonly random?: () => number;
}

const dayMs = 86_400_000;
const monthMs = 30 * dayMs;

export interface ResolvedOptions {
  readonly work: boolean;
  readonly concurrency: number;
  readonly leaseMs: number;
  readonly pollMs: number;
  readonly timeoutMs: number;
  readonly graceMs: number;
  readonly crashMax: number;
  readonly joinWaitMs: number;
  readonly onMismatch: "acknowledge" | "deadLetter";
  readonly retentionMs: number | null;
  readonly deadRetentionMs: number | null;
  readonly privateWebhooks: PrivateWebhooks;
  readonly random: () => number;
  readonly history: HistorySettings;
}

const optionNames: OptionNames<RuntimeOptions> = {
  ...{
    store: true,
    documents: true,
    nodes: true,
    registry: true,
    workflows: true,
    partial: true,
    work: true,
    concurrency: true,
    leaseMs: true,
  },
  ...{ pollMs: true, timeoutMs: true, graceMs: true, crashMax: true, joinWaitMs: true, onMismatch: true, retentionMs: true },
  ...{
    deadLetterRetentionMs: true,
    substitutes: true,
    streams: true,
    privateWebhooks: true,
    history: true,
    random: true,
    allowRemote: true,
    limits: true,
    references: true,
  },
};

/** Checks all options before anything is opened. */
export function resolveOptions(options: RuntimeOptions): ResolvedOptions {
  knownOptions("createRuntime", options, optionNames);
  const { work = true, concurrency = 100, leaseMs = 30_000, pollMs = 1000, timeoutMs = 600_000, graceMs = 5000 } = options;
  const { crashMax = 10, joinWaitMs = dayMs, onMismatch = "acknowledge", random = Math.random } = options;
  requireStore(options.store);
  checkReferences(options.references);
  if (!Array.isArray(options.documents)) throw new InvalidInputError("documents", "must be a list of paths, texts or plans");
  count("concurrency", concurrency, 100_000);
  count("crashMax", crashMax, 1000);
  duration("leaseMs", leaseMs, leaseMsMin, leaseMsMax);
  duration("pollMs", pollMs, 1, leaseMsMax);
  duration("timeoutMs", timeoutMs, 1);
  duration("graceMs", graceMs);
  duration("joinWaitMs", joinWaitMs, 1);
  oneOf("onMismatch", onMismatch, ["acknowledge", "deadLetter"]);
  oneOf("streams", options.streams ?? "refuse", ["refuse", "store"]);
  const { substitutes = [] } = options;
  if (!Array.isArray(substitutes)) throw new InvalidInputError("substitutes", "must be a list of field names");
  for (const name of substitutes) oneOf("substitutes", name, substituteNames);
  return {
    work,
    concurrency,
    leaseMs,
    pollMs: Math.min(pollMs, Math.ceil(leaseMs / 2)),
    timeoutMs,
    graceMs,
    crashMax,
    joinWaitMs,
    onMismatch,
    retentionMs: retention("retentionMs", options.retentionMs),
    deadRetentionMs: retention("deadLetterRetentionMs", options.deadLetterRetentionMs),
    privateWebhooks: checkPrivateWebhooks(options.privateWebhooks ?? "refuse"),
    random,
    history: historySettings(options.history),
  };
}

function count(field: string, value: unknown, max: number): void {
  if (typeof value !== "number" || !Number.isInteger(value) || value < 1 || value > max)
    throw new InvalidInputError(field, `must be a whole number from 1 to ${max}, not ${String(value)}`);
}

function retention(field: string, value: number | "forever" = monthMs): number | null {
  if (value === "forever") return null;
  duration(field, value);
  return value;
}
