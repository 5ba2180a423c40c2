import { closest } from "../../core/errors/closest.js";
import { type Findings, placeOf } from "../findings/finding.js";
import { childOf, entriesOf, plainOf, type Spot } from "../load/tree.js";
import { flowRuntimeFields } from "../normalise/flow-runtime.js";
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

/** Stores without packets. */
const keepNoPackets = ["redis"];

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
    findings.add(code, spot, `${why}${why.endsWith("?") ? " " : ": "}${substitutes[substitute]}`, optIn(substitute));
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
    for (const name of ["runtimeBindings", "x-runtime"] as const) {
      const asks = childOf(spot, name);
      if (name === "x-runtime" && asks?.tree.kind === "map")
        checkRuntime(asks, spot.tree === flow.spot.tree ? flowRuntimeFields : {}, report);
      else report(name, asks);
    }
  for (const spot of [root, flow.spot, ...edges.map(({ edge }) => edge.spot)]) report("x-alerts", childOf(spot, "x-alerts"));
  // Only the runtime knows whether it has code or an address for the node.
  const needs: NeedsNode = (substitute, spot, operationId) => {
    const { tree, pointer } = spot;
    const name = pointer.slice(pointer.lastIndexOf("/") + 1);
    const asked = `${name}: ${tree.kind === "scalar" ? String(tree.value) : JSON.stringify(plainOf(tree))}`;
    found.set(`${substitute} ${operationId} ${tree.source.file} ${tree.offset}`, { substitute, asked, place: placeOf(spot), operationId });
  };
  for (const node of flow.nodes) {
    checkNode(node, linked, report, needs);
    if (node.kind === "subworkflow") checkSettingNames(childOf(node.spot, "settings"), findings);
  }
  checkProtocols(linked, findings);
  for (const edge of edges) {
    checkEdge(edge, report, needs);
    checkModes(edge, (substitute, spot, why) => add(substitute, spot, "FLOW_FIELD_NOT_USED", why));
  }
  return [...found.values()];
}

/** What the MongoDB store does in place of the bindings of the specification (`x-runtime.mongodb` of an edge). */
const mongodbInstead: ReadonlyMap<string, string> = new Map([
  ["collection", "the packets of all flows are in one collection of the store"],
  ["writeConcern", "the MongoDB store waits for a majority and the journal with every write"],
  ["readPreference", "the MongoDB store reads from the primary"],
]);

/** `x-runtime`: each member that the runtime does not read at this place. Some maps have no members, and are reported themselves. */
function checkRuntime(asks: Spot, known: typeof flowRuntimeFields, report: Report): void {
  const backends = entriesOf(asks);
  if (backends.length === 0) report("x-runtime", asks);
  for (const { name, ...spot } of backends) {
    const fields = Object.hasOwn(known, name) ? (known[name] ?? []) : [];
    if (name !== "mongodb" || spot.tree.kind !== "map") report("x-runtime", spot, notRead(name, Object.keys(known)));
    else
      for (const field of entriesOf(spot))
        if (!fields.includes(field.name)) report("x-runtime", field, mongodbInstead.get(field.name) ?? notRead(field.name, fields));
  }
}

function notRead(name: string, known: readonly string[]): string {
  const near = closest(name, known);
  if (near !== undefined) return `unknown; did you mean "${near}"?`;
  return known.length === 0 ? "not supported" : `not supported; known members: ${known.join(", ")}`;
}

type Report = (substitute: Substitute, spot: Spot | undefined, why?: string) => void;

/** A field asks for a node in another process. */
type NeedsNode = (substitute: Substitute, spot: Spot, operationId: string) => void;

/** The protocols over which the runtime calls nodes in other processes. */
const remoteProtocols: readonly string[] = ["http", "grpc"];

function checkNode(node: Node, { edges }: Linked, report: Report, needs: NeedsNode): void {
  const { spot, runtime, idempotency, operationId } = node;
  const asks = childOf(spot, "runtime");
  for (const name of ["image", "nats", "redis", "zeromq", "rabbitmq", "websocket"])
    report("runtime", asks && childOf(asks, name), "the runtime calls nodes in its process, over HTTP and over gRPC only");
  const language = asks && childOf(asks, "language");
  if (language !== undefined && (runtime?.language === "go" || runtime?.language === "python")) needs("runtime", language, operationId);
  const supports = asks && childOf(asks, "supports");
  if (supports !== undefined && runtime !== undefined && runtime.supports.length > 0 && !runtime.supports.includes("proc")) {
    if (runtime.supports.some((protocol) => remoteProtocols.includes(protocol))) needs("runtime", supports, operationId);
    else report("runtime", supports, "the runtime calls nodes in its process (proc), over HTTP and over gRPC only");
  }
  if (keepNoPackets.includes(idempotency?.store ?? ""))
    report("store", childOf(childOf(spot, "idempotency") as Spot, "store"), `keys cannot be stored in ${idempotency?.store}`);
  if (edges.some(({ edge, ends }) => ends.to.node === node && edge.delivery.mode === "direct"))
    report("execution", childOf(spot, "execution"), "a direct edge leads to this node");
  checkAlerts(childOf(spot, "x-alerts"), report);
  if (node.kind === "subworkflow") checkChildSettings(childOf(spot, "settings"), report);
}

/** Settings that the specification gives a subworkflow. The defaults, no mapping and `failOnChildError: true`, are what the runtime does. */
function checkChildSettings(settings: Spot | undefined, report: Report): void {
  if (settings === undefined) return;
  const defaults: Readonly<Record<string, unknown>> = {
    inputMapping: undefined,
    outputMapping: undefined,
    timeoutMs: 0,
    failOnChildError: true,
  };
  for (const { name, ...spot } of entriesOf(settings))
    if (Object.hasOwn(defaults, name) && plainOf(spot.tree) !== defaults[name]) report("subworkflow", spot);
}

/** Settings of a subworkflow that the runtime reads. */
const childSettings: readonly string[] = [
  "flow",
  "workflow",
  "entry",
  "workflowRef",
  "inputMapping",
  "outputMapping",
  "timeoutMs",
  "failOnChildError",
];

/** Other settings may be for code that replaces the built-in node: only a misspelt name is reported. */
function checkSettingNames(settings: Spot | undefined, findings: Findings): void {
  for (const { name, ...spot } of settings === undefined ? [] : entriesOf(settings)) {
    const near = childSettings.includes(name) ? undefined : closest(name, childSettings);
    if (near !== undefined) findings.add("FLOW_UNKNOWN_FIELD", spot, `unknown setting "${name}"`, `did you mean "${near}"?`);
  }
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

/** A node is called over one protocol, which its `runtime` supports. */
function checkProtocols({ flow, edges }: Linked, findings: Findings): void {
  for (const { id, runtime } of flow.nodes) {
    const asking = edges.filter(({ edge, ends }) => ends.to.node.id === id && remoteProtocols.includes(edge.protocol ?? ""));
    const first = asking[0]?.edge.protocol;
    for (const { edge } of asking) {
      const spot = childOf(edge.spot, "protocol") ?? edge.spot;
      const { protocol = "proc" } = edge;
      if (protocol !== first)
        findings.add(
          "FLOW_PROTOCOL",
          spot,
          `node "${id}" is called over ${first} by another edge`,
          "use one protocol for all edges to a node",
        );
      else if (runtime !== undefined && runtime.supports.length > 0 && !runtime.supports.includes(protocol))
        findings.add(
          "FLOW_PROTOCOL",
          spot,
          `node "${id}" supports ${runtime.supports.join(", ")}`,
          "choose one of these, or add it to `supports`",
        );
    }
  }
}

function checkEdge({ edge: { delivery, protocol, spot }, ends }: LinkedEdge, report: Report, needs: NeedsNode): void {
  const { mode, backend, store, ordering, partitionKey, bus } = delivery;
  if (mode === "stream") report("stream", childOf(delivery.spot, "mode"), "brokers are not supported");
  const asked = childOf(spot, "protocol");
  if (asked !== undefined && remoteProtocols.includes(protocol ?? "")) needs("protocol", asked, ends.to.node.operationId);
  else if (protocol !== undefined && protocol !== "proc" && !(mode === "stream" && protocol === (bus ?? "kafka")))
    report("protocol", asked, "the runtime calls nodes in its process (proc), over HTTP and over gRPC only");
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
