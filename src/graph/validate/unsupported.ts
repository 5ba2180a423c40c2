import { type Findings, placeOf } from "../findings/finding.js";
import { childOf, entriesOf, plainOf, type Spot } from "../load/tree.js";
import type { DeliveryMode, Node } from "../normalise/model.js";
import type { Linked, LinkedEdge } from "../plan/link.js";
import { optIn, type Substitute, substitutes, type Unsupported } from "../plan/substitutes.js";

const stored = ["durable", "checkpoint", "stream"] as const;
const notDirect = ["ephemeral", ...stored] as const;

/** Fields of a delivery that the runtime supports only in some modes. */
const doneIn = new Map<string, { readonly modes: readonly DeliveryMode[]; readonly substitute: Substitute }>(
  Object.entries({
    idempotencyKey: { modes: notDirect, substitute: "idempotencyKey" },
    idempotencyTtl: { modes: notDirect, substitute: "idempotencyKey" },
    idempotencyTtlMs: { modes: notDirect, substitute: "idempotencyKey" },
    retryPolicy: { modes: notDirect, substitute: "retryPolicy" },
    deadLetterQueue: { modes: notDirect, substitute: "deadLetterQueue" },
    timeout: { modes: notDirect, substitute: "timeout" },
    timeoutMs: { modes: notDirect, substitute: "timeout" },
    maxInFlight: { modes: notDirect, substitute: "maxInFlight" },
    priority: { modes: stored, substitute: "priority" },
    ordering: { modes: stored, substitute: "ordering" },
    partitionKey: { modes: stored, substitute: "partitionKey" },
    batching: { modes: stored, substitute: "batching" },
    batchSize: { modes: stored, substitute: "batching" },
    recovery: { modes: stored, substitute: "recovery" },
    store: { modes: ["durable", "checkpoint"], substitute: "store" },
    checkpointInterval: { modes: ["checkpoint"], substitute: "checkpointInterval" },
    backend: { modes: ["ephemeral"], substitute: "backend" },
    maxLen: { modes: ["ephemeral"], substitute: "maxLen" },
    stream: { modes: ["stream", "ephemeral"], substitute: "stream" },
    topic: { modes: ["stream"], substitute: "topic" },
    consumerGroup: { modes: ["stream"], substitute: "consumerGroup" },
  }),
);

/** Stores without packets: only memory, SQLite and PostgreSQL store packets. */
const keepNoPackets = ["mongo", "redis"];

/** Finds every field that the runtime does not support as written, and reports what the runtime does instead. */
export function findUnsupported(linked: Linked, root: Spot, findings: Findings): readonly Unsupported[] {
  const found = new Map<string, Unsupported>();
  const add = (substitute: Substitute, spot: Spot, code: "FLOW_UNSUPPORTED" | "FLOW_FIELD_NOT_USED", why: string) => {
    const { tree, pointer } = spot;
    const name = pointer.slice(pointer.lastIndexOf("/") + 1);
    const asked = tree.kind === "scalar" ? `${name}: ${String(tree.value)}` : name;
    const key = `${substitute} ${tree.source.file} ${tree.offset}`;
    if (found.has(key)) return;
    found.set(key, { substitute, asked, place: placeOf(spot) });
    findings.add(code, spot, `${why}: ${substitutes[substitute]}`, optIn(substitute));
  };
  const report: Report = (substitute, spot, why = "not supported") => {
    if (spot !== undefined) add(substitute, spot, "FLOW_UNSUPPORTED", why);
  };
  const { flow, edges } = linked;
  for (const spot of [
    root,
    flow.spot,
    ...flow.nodes.map((node) => node.spot),
    ...edges.flatMap(({ edge }) => [edge.spot, edge.delivery.spot]),
  ])
    for (const name of ["runtimeBindings", "x-runtime"] as const) report(name, childOf(spot, name));
  for (const spot of [root, flow.spot, ...edges.map(({ edge }) => edge.spot)]) report("x-alerts", childOf(spot, "x-alerts"));
  for (const node of flow.nodes) checkNode(node, linked, report);
  for (const edge of edges) {
    checkEdge(edge, report);
    checkModes(edge, (substitute, spot, why) => add(substitute, spot, "FLOW_FIELD_NOT_USED", why));
  }
  return [...found.values()];
}

type Report = (substitute: Substitute, spot: Spot | undefined, why?: string) => void;

function checkNode(node: Node, { edges }: Linked, report: Report): void {
  const { spot, runtime, idempotency } = node;
  const asks = childOf(spot, "runtime");
  for (const name of ["image", "grpc", "nats", "redis", "zeromq", "rabbitmq", "websocket"])
    report("runtime", asks && childOf(asks, name), "nodes in other processes are not supported");
  if (runtime?.language === "go" || runtime?.language === "python")
    report("runtime", asks && childOf(asks, "language"), `nodes in ${runtime.language} are not supported`);
  if (runtime !== undefined && runtime.supports.length > 0 && !runtime.supports.includes("proc"))
    report("runtime", asks && childOf(asks, "supports"), "the runtime calls nodes only in its own process (proc)");
  if (keepNoPackets.includes(idempotency?.store ?? ""))
    report("store", childOf(childOf(spot, "idempotency") as Spot, "store"), `keys cannot be stored in ${idempotency?.store}`);
  if (edges.some(({ edge, ends }) => ends.to.node === node && edge.delivery.mode === "direct"))
    report("execution", childOf(spot, "execution"), "a direct edge leads to this node");
  checkAlerts(childOf(spot, "x-alerts"), report);
}

/** A dead letter has severity error: alerts with one of these minimum severities are sent. */
const severities: readonly unknown[] = ["error", "warning", "info"];

function checkAlerts(alerts: Spot | undefined, report: Report): void {
  if (alerts === undefined) return;
  for (const { name, ...event } of entriesOf(alerts)) {
    if (name !== "onDeadLetter") report("x-alerts", event, "alerts are supported only for dead letters");
    else
      for (const { name: field, ...spot } of entriesOf(event)) {
        const done = field === "webhook" || field === "message" || (field === "minSeverity" && severities.includes(plainOf(spot.tree)));
        if (!done) report("x-alerts", spot, "alerts are sent only to a webhook");
      }
  }
}

function checkEdge({ edge: { delivery, protocol, spot } }: LinkedEdge, report: Report): void {
  const { mode, backend, store, ordering, partitionKey, bus } = delivery;
  if (mode === "stream") report("stream", childOf(delivery.spot, "mode"), "brokers are not supported");
  if (protocol !== undefined && protocol !== "proc" && !(mode === "stream" && protocol === (bus ?? "kafka")))
    report("protocol", childOf(spot, "protocol"), "nodes in other processes are not supported");
  if (mode === "ephemeral" && backend !== undefined && backend !== "memory")
    report("backend", childOf(delivery.spot, "backend"), `queues on ${backend} are not supported`);
  if (keepNoPackets.includes(store ?? "") && doneIn.get("store")?.modes.includes(mode))
    report("store", childOf(delivery.spot, "store"), `packets cannot be stored in ${store}`);
  if (partitionKey !== undefined && ordering !== "perKey" && (mode === "durable" || mode === "checkpoint"))
    report("partitionKey", childOf(delivery.spot, "partitionKey") ?? partitionKey.spot, "packets are not ordered by it");
}

/** Reports fields that the delivery mode does not use. */
function checkModes({ edge: { delivery } }: LinkedEdge, add: (substitute: Substitute, spot: Spot, why: string) => void): void {
  for (const { name, tree, pointer } of entriesOf(delivery.spot)) {
    const rule = doneIn.get(name);
    if (rule === undefined || rule.modes.includes(delivery.mode) || isOff(name, delivery)) continue;
    add(rule.substitute, { tree, pointer }, `mode ${delivery.mode} does not use "${name}"`);
  }
}

/** Whether the field is present but switched off. */
function isOff(name: string, { ordering, batchSize }: LinkedEdge["edge"]["delivery"]): boolean {
  if (name === "ordering") return ordering === undefined || ordering === "none";
  return name === "batching" && batchSize === undefined;
}
