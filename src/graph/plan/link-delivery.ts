import type { Findings } from "../findings/finding.js";
import type { Edge, Flow, RetryPolicy } from "../normalise/model.js";
import { defaultRetry } from "../normalise/policy.js";
import { compileKey } from "./key-maker.js";
import type { Ends } from "./link-ports.js";
import type { PacketType, PacketTypes } from "./packets.js";
import type { PlannedDelivery, PlannedKey } from "./plan.js";

interface EdgeContext {
  readonly flow: Flow;
  readonly ends: Ends;
  readonly packet: PacketType | undefined;
  readonly packets: PacketTypes;
  readonly findings: Findings;
}

const retentionMsDefault = 30 * 86_400_000;
const priorityDefault = 5;

/** Resolves a delivery: the edge's fields (already merged with its policy) before the flow's defaults and the built-in defaults. */
export function linkDelivery({ delivery }: Pick<Edge, "delivery">, context: EdgeContext): PlannedDelivery {
  const { flow, ends } = context;
  const { mode, topic, bus, timeoutMs, inFlightMax, recovery, store, partitionKey, consumerGroup } = delivery;
  const nodeTimeoutMs = timeoutMs ?? ends.to.node.execution.timeoutMs ?? flow.defaults.execution.timeoutMs;
  const key = keyOf(delivery, context);
  const partition = partitionKey && compileKey(partitionKey, { ...context, namesOperation: false });
  const deadLetters = deadLettersOf(
    delivery.deadLetters,
    mode === "stream" && topic !== undefined ? `${topic}.dead-letter` : `${flow.id}.dead_letters`,
  );
  return {
    mode,
    retry: delivery.retry ?? flow.defaults.retry ?? retryOf(context, mode === "direct"),
    priority: delivery.priority ?? priorityDefault,
    ordering: delivery.ordering ?? "none",
    batch: { size: delivery.batchSize ?? 1, waitMs: delivery.batchWaitMs ?? 0 },
    checkpointEvery: delivery.checkpointEvery ?? 1,
    ...(deadLetters !== undefined && { deadLetters }),
    ...(key && { key }),
    ...(nodeTimeoutMs !== undefined && { timeoutMs: nodeTimeoutMs }),
    ...(inFlightMax !== undefined && { inFlightMax }),
    ...(recovery && { recovery }),
    ...(store && { store }),
    ...(mode === "ephemeral" && {
      queue: {
        backend: delivery.backend ?? "memory",
        name: delivery.queue ?? `${flow.id}.${ends.to.node.id}`,
        ...(delivery.queueLengthMax !== undefined && { lengthMax: delivery.queueLengthMax }),
      },
    }),
    ...(mode === "stream" && {
      stream: { bus: bus ?? "kafka", topic: topic ?? "", ...(consumerGroup !== undefined && { consumerGroup }) },
    }),
    ...(partition && { partitionKey: partition }),
  };
}

function deadLettersOf(said: boolean | string | undefined, byDefault: string): string | undefined {
  if (typeof said === "string") return said;
  return said === false ? undefined : byDefault;
}

/** A direct call is made once: the caller gets its error. */
function retryOf({ flow, ends }: EdgeContext, direct: boolean): RetryPolicy {
  const retries = ends.to.node.execution.maxRetries ?? flow.defaults.execution.maxRetries;
  if (retries !== undefined) return { ...defaultRetry, maxAttempts: retries + 1 };
  return direct ? { ...defaultRetry, maxAttempts: 1 } : defaultRetry;
}

function keyOf({ key: onEdge, keyTtlMs }: Edge["delivery"], context: EdgeContext): PlannedKey | undefined {
  const onNode = context.ends.to.node.idempotency;
  const made = compileOr(onEdge ?? onNode?.key, context);
  if (made === undefined) return undefined;
  return {
    ...made,
    from: onEdge === undefined ? "node" : "edge",
    retentionMs: keyTtlMs ?? onNode?.ttlMs ?? retentionMsDefault,
    ...(onNode?.store && { store: onNode.store }),
  };
}

function compileOr(written: Edge["delivery"]["key"], context: EdgeContext) {
  return written && compileKey(written, { ...context, namesOperation: true });
}
