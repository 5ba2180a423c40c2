import { ConfigurationError } from "../../../core/errors/errors.js";
import { type Finding, findingText } from "../../findings/finding.js";
import type { FindingCode } from "../../findings/finding-codes.js";
import { type FlowSource, type LoadOptions, loadFlows, loadOptionsOf } from "../../load/load-flows.js";
import { type GivenNode, type NodesOption, nodesOf } from "../../node/given-nodes.js";
import { BaseNode, type FlowNode } from "../../node/node.js";
import { type DeclaredNode, NodeType } from "../../node/node-type.js";
import { isReadyMade } from "../../node/ready-made-names.js";
import type { FlowPlan, PlannedNode } from "../../plan/plan.js";
import { checkServers, warnOfServers } from "../../remote/registry/check-servers.js";
import { callsNodes, RemoteNodes } from "../../remote/registry/remote-nodes.js";
import { alertRoute } from "../alerts/alert.js";
import { warnOfWebhooks } from "../alerts/webhook.js";
import type { ResolvedOptions, RuntimeOptions } from "../runtime-options.js";
import type { Routed } from "./route.js";
import { passOn, route } from "./routes.js";
import { type ChildFlows, checkChildren, subworkflow } from "./subworkflow.js";
import { checkSupported } from "./supported.js";

/**
 * From documents to routes: load and plan each document, link its plan to the nodes of this process (`routes.ts`), check that
 * all nodes are there (`checkNodes`) and that the runtime supports every field (`supported.ts`), then initialise the nodes.
 */
export async function routeFlows(options: RuntimeOptions, resolved: ResolvedOptions, flows: ChildFlows): Promise<RoutedFlows> {
  const plans = await plansOf(options);
  const given = nodesOf((options.nodes ?? {}) as NodesOption);
  const remote = await RemoteNodes.open(options.registry);
  const called = new Set(plans.filter((plan) => callsNodes(plan, resolved.work)).flatMap(({ nodes }) => [...nodes.values()]));
  /** Code that the user gave wins over the registry, and the registry over the document. */
  const remoteOf = (node: PlannedNode) => (given.has(node.operationId) || !called.has(node) ? undefined : remote.workOf(node));
  const workOf = workFinder(plans, options, given, remoteOf, flows);
  const hasCode = (node: PlannedNode) => given.has(node.operationId) || remoteOf(node) !== undefined;
  // A partial runtime does not know whether another process has code for the source, which may change the payload.
  const passesOn = (node: PlannedNode) => node.kind === "source" && resolved.work && options.partial !== true && !hasCode(node);
  const routed = new Map<string, Routed>();
  for (const plan of plans) {
    if (routed.has(plan.id)) throw new ConfigurationError(`[onceflow] two documents define flow "${plan.id}"`, { code: "FLOW_TWICE" });
    const made = route(plan, workOf, passesOn, resolved.deadRetentionMs);
    routed.set(plan.id, { ...made, routes: new Map([...made.routes, alertRoute(plan, resolved.privateWebhooks)]) });
  }
  checkNodes(plans, options, workOf);
  checkSupported(plans, options, hasCode);
  checkChildren(plans, hasCode);
  if (resolved.work) warnOfWebhooks(plans, resolved.privateWebhooks);
  await initNodes(plans, workOf);
  if (resolved.work) warnOfServers([...remote.misspelt(operationIdsOf(plans)), ...(await checkServers(remote.servers))]);
  return { routed, close: () => remote.close() };
}

function operationIdsOf(plans: readonly FlowPlan[]): ReadonlySet<string> {
  return new Set(plans.flatMap(({ nodes }) => [...nodes.values()].map(({ operationId }) => operationId)));
}

export interface RoutedFlows {
  readonly routed: ReadonlyMap<string, Routed>;
  /** Closes the connections to node servers. */
  readonly close: () => void;
}

async function plansOf({ documents, ...options }: RuntimeOptions): Promise<FlowPlan[]> {
  const plans: FlowPlan[] = [];
  for (const document of documents)
    plans.push(
      ...(typeof document === "object" && document !== null && "nodes" in document ? [document] : await loadPlans(document, options)),
    );
  // The list grows: a child may refer to a flow of another file, too.
  for (const { nodes } of plans)
    for (const { child } of nodes.values())
      if (child?.file !== undefined && !plans.some(({ id }) => id === child.flow))
        plans.push(...(await loadPlans(child.file, options)).filter(({ id }) => id === child.flow));
  return plans;
}

async function loadPlans(document: FlowSource, options: LoadOptions): Promise<readonly FlowPlan[]> {
  const { ok, flows, findings } = await loadFlows(document, loadOptionsOf(options));
  const errors = findings.filter(({ severity }) => severity === "error").map(findingText);
  if (!ok) throw new ConfigurationError(`[onceflow] a flow document cannot be run:\n${errors.join("\n")}`, { code: "FLOW_INVALID" });
  // An unknown field may be a typo, whose setting would silently have no effect.
  warn(findings, ["FLOW_UNKNOWN_FIELD"], "ONCEFLOW_UNKNOWN_FIELD", "a flow document has unknown fields, which have no effect");
  const unchecked: readonly FindingCode[] = ["FLOW_REMOTE_NOT_LOADED", "FLOW_IGNORED_KEYWORD"];
  warn(findings, unchecked, "ONCEFLOW_PACKETS_NOT_CHECKED", "packets are not checked against everything that a flow document asks for");
  return flows;
}

function warn(findings: readonly Finding[], codes: readonly FindingCode[], code: string, message: string): void {
  const found = findings.filter((finding) => codes.includes(finding.code)).map(findingText);
  if (found.length > 0) process.emitWarning(`[onceflow] ${message}:\n${found.join("\n")}`, { type: "OnceflowWarning", code });
}

type WorkOf = (node: PlannedNode) => FlowNode | undefined;

/** The node that the user gave for the operationId; else the node in another process; else the built-in work of its kind. */
function workFinder(
  plans: readonly FlowPlan[],
  options: RuntimeOptions,
  given: ReadonlyMap<string, GivenNode>,
  remoteOf: WorkOf,
  flows: ChildFlows,
): WorkOf {
  const { workflows = {}, store, partial = false, work: works = true } = options;
  const context = { store, workflows, flows, elsewhere: partial };
  const made = new Map<PlannedNode, FlowNode | undefined>();
  return (node) => {
    if (made.has(node)) return made.get(node);
    // A runtime that delivers nothing need not have the workflows.
    const child = () => (works ? subworkflow(node, context) : undefined);
    const user = given.get(node.operationId);
    const own = user instanceof NodeType ? user.make(declarationOf(node, plans)) : user;
    const work = own ?? remoteOf(node) ?? (node.kind === "subworkflow" ? child() : passOn(node));
    made.set(node, work);
    return work;
  };
}

function declarationOf(node: PlannedNode, plans: readonly FlowPlan[]): DeclaredNode {
  const { id, settings, outputs, incoming, place } = node;
  const entries = plans.find(({ nodes }) => nodes.get(id) === node)?.entries.filter((entry) => entry.node === id) ?? [];
  const edges = incoming.map(({ id: edge, delivery }) => ({
    name: `edge "${edge}"`,
    mode: delivery.mode,
    keyed: delivery.key !== undefined,
  }));
  const starts = entries.map(({ delivery }) => ({ name: "the entry point", mode: delivery.mode, keyed: delivery.key !== undefined }));
  return { id, settings, output: outputs[0]?.name ?? "out", arrivals: [...edges, ...starts], place };
}

function checkNodes(plans: readonly FlowPlan[], { partial = false, work = true }: RuntimeOptions, workOf: WorkOf): void {
  if (partial || !work) return;
  const missing = plans.flatMap(({ id, nodes }) =>
    [...nodes.values()].filter((node) => workOf(node) === undefined).map(({ operationId }) => `${operationId} (flow ${id})`),
  );
  if (missing.length === 0) return;
  const readyMade = missing.some((each) => isReadyMade(each.replace(/ .*/, "")));
  throw new ConfigurationError(
    `[onceflow] missing nodes: ${missing.join(", ")}; add them to \`nodes\` or to the \`registry\` of node servers, or set \`partial\` if other processes run them` +
      (readyMade ? "; ready-made nodes: nodes: { ...readyMadeNodes() }, from onceflow/nodes" : ""),
    { code: "NODES_MISSING" },
  );
}

/** Calls `init` once per node of each flow, with that node's settings; an object that serves two nodes is called twice. */
async function initNodes(plans: readonly FlowPlan[], workOf: WorkOf): Promise<void> {
  for (const { nodes } of plans) {
    for (const node of nodes.values()) {
      const work = workOf(node);
      if (work instanceof BaseNode) await work.init(node.settings);
    }
  }
}
