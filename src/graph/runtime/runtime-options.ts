import { InvalidInputError } from "../../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../../core/errors/known-options.js";
import { duration, leaseMsMax, leaseMsMin, oneOf } from "../../core/ledger/options.js";
import { requireStore } from "../../core/store/require-store.js";
import type { Store } from "../../core/store/store.js";
import type { WorkflowFunction } from "../../workflow/define/definition.js";
import type { FlowSource, LoadOptions } from "../load/load-flows.js";
import type { FlowPlan } from "../plan/plan.js";
import { type Substitute, substituteNames } from "../plan/substitutes.js";
import { checkPrivateWebhooks, type PrivateWebhooks } from "./alerts/private-address.js";
import type { NodesOption } from "./flows/routes.js";

export interface RuntimeOptions extends LoadOptions {
  readonly store: Store;
  /** Paths of flow documents, their texts, or plans that are loaded already. */
  readonly documents: readonly (FlowSource | FlowPlan)[];
  /** By operationId: functions, or objects of classes that extend BaseNode. */
  readonly nodes?: NodesOption;
  /** Durable workflows that nodes of kind `subworkflow` may name. */
  readonly workflows?: Readonly<Record<string, WorkflowFunction>>;
  /** Not all nodes are here: other processes work on the rest. Default false: a node that is missing is an error. */
  readonly partial?: boolean;
  /** False: this process only triggers and looks. Default true. */
  readonly work?: boolean;
  /** Packets with this process at once. Default 100. */
  readonly concurrency?: number;
  /** How long this process may be silent before others take its packets over. Default 30 s. */
  readonly leaseMs?: number;
  /** How often it looks for work that nobody told it of. Default 1 s. */
  readonly pollMs?: number;
  /** Bounds a delivery whose edge and node say nothing. Default 10 minutes. */
  readonly timeoutMs?: number;
  /** How long a node has to end after its time is over, before it is tried again. Default 5 s. */
  readonly graceMs?: number;
  /** How often workers that have no other packet may die over one before it is a dead letter. Default 10. */
  readonly crashMax?: number;
  /** How long a node waits until all of its ports are filled. Default one day. */
  readonly joinWaitMs?: number;
  /** A key that was completed with another packet: acknowledge with a note (default), or make a dead letter of it. */
  readonly onMismatch?: "acknowledge" | "deadLetter";
  /** How long executions are kept after their end, keys of triggers, and dead letters. Default 30 days each. */
  readonly retentionMs?: number | "forever";
  readonly deadLetterRetentionMs?: number | "forever";
  /**
   * What documents may ask for although the runtime does something else, by the name of the field: `["backend", "store"]`.
   * Default none: a flow with such a field does not run. What each of them does instead is in the reference of documents.
   */
  readonly substitutes?: readonly Substitute[];
  /** "store": as `substitutes: ["stream"]`. */
  readonly streams?: "refuse" | "store";
  /**
   * Whether alerts (`x-alerts`) may go to loopback, private and link-local addresses: "refuse" (default), "allow", or the
   * hosts that may be there, as they stand in the webhooks.
   */
  readonly privateWebhooks?: PrivateWebhooks;
  /** From 0 to 1: where the jitter of retries comes from. Default Math.random. */
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
}

const optionNames: OptionNames<RuntimeOptions> = {
  ...{ store: true, documents: true, nodes: true, workflows: true, partial: true, work: true, concurrency: true, leaseMs: true },
  ...{ pollMs: true, timeoutMs: true, graceMs: true, crashMax: true, joinWaitMs: true, onMismatch: true, retentionMs: true },
  ...{
    deadLetterRetentionMs: true,
    substitutes: true,
    streams: true,
    privateWebhooks: true,
    random: true,
    allowRemote: true,
    limits: true,
  },
};

/** Everything is checked before anything is opened. */
export function resolveOptions(options: RuntimeOptions): ResolvedOptions {
  knownOptions("createRuntime", options, optionNames);
  const { work = true, concurrency = 100, leaseMs = 30_000, pollMs = 1000, timeoutMs = 600_000, graceMs = 5000 } = options;
  const { crashMax = 10, joinWaitMs = dayMs, onMismatch = "acknowledge", random = Math.random } = options;
  requireStore(options.store);
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
  if (!Array.isArray(substitutes)) throw new InvalidInputError("substitutes", "must be a list of names of fields");
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
