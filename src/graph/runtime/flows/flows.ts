import { ConfigurationError } from "../../../core/errors/errors.js";
import { type Finding, findingText } from "../../findings/finding.js";
import { loadFlows } from "../../load/load-flows.js";
import { BaseNode, type FlowNode } from "../../node/node.js";
import type { FlowPlan, PlannedNode } from "../../plan/plan.js";
import { alertRoute } from "../alerts/alert.js";
import { warnOfWebhooks } from "../alerts/webhook.js";
import type { ResolvedOptions, RuntimeOptions } from "../runtime-options.js";
import type { Routed } from "./route.js";
import { type NodesOption, nodesOf, passOn, route } from "./routes.js";
import { type ChildFlows, checkChildren, subworkflow } from "./subworkflow.js";
import { checkSupported } from "./supported.js";

/**
 * From documents to routes: load and plan each document, link its plan to the nodes of this process (`routes.ts`), check that
 * all nodes are there (`checkNodes`) and that the runtime supports every field (`supported.ts`), then initialise the nodes.
 */
export async function routeFlows(
  options: RuntimeOptions,
  resolved: ResolvedOptions,
  flows: ChildFlows,
): Promise<ReadonlyMap<string, Routed>> {
  const plans = await plansOf(options);
  const given = nodesOf((options.nodes ?? {}) as NodesOption);
  const workOf = workFinder(options, given, flows);
  // A partial runtime does not know whether another process has code for the source, which may change the payload.
  const passesOn = ({ kind, operationId }: PlannedNode) =>
    kind === "source" && resolved.work && options.partial !== true && !given.has(operationId);
  const routed = new Map<string, Routed>();
  for (const plan of plans) {
    if (routed.has(plan.id)) throw new ConfigurationError(`[onceflow] two documents define flow "${plan.id}"`, { code: "FLOW_TWICE" });
    const made = route(plan, workOf, passesOn, resolved.deadRetentionMs);
    routed.set(plan.id, { ...made, routes: new Map([...made.routes, alertRoute(plan, resolved.privateWebhooks)]) });
  }
  checkNodes(plans, options, workOf);
  checkSupported(plans, options);
  checkChildren(plans, ({ operationId }) => given.has(operationId));
  if (resolved.work) warnOfWebhooks(plans, resolved.privateWebhooks);
  await initNodes(plans, workOf);
  return routed;
}

async function plansOf({ documents, ...load }: RuntimeOptions): Promise<FlowPlan[]> {
  const plans: FlowPlan[] = [];
  for (const document of documents) {
    if (typeof document === "object" && document !== null && "nodes" in document) {
      plans.push(document);
      continue;
    }
    const { ok, flows, findings } = await loadFlows(document, load);
    const errors = findings.filter(({ severity }) => severity === "error").map(findingText);
    if (!ok) throw new ConfigurationError(`[onceflow] a flow document cannot be run:\n${errors.join("\n")}`, { code: "FLOW_INVALID" });
    warnOfUnknownFields(findings);
    plans.push(...flows);
  }
  return plans;
}

/** An unknown field may be a typo, whose setting would silently have no effect. */
function warnOfUnknownFields(findings: readonly Finding[]): void {
  const unknown = findings.filter(({ code }) => code === "FLOW_UNKNOWN_FIELD").map(findingText);
  if (unknown.length === 0) return;
  process.emitWarning(`[onceflow] a flow document has unknown fields, which have no effect:\n${unknown.join("\n")}`, {
    type: "OnceflowWarning",
    code: "ONCEFLOW_UNKNOWN_FIELD",
  });
}

type WorkOf = (node: PlannedNode) => FlowNode | undefined;

/** The node that the user gave for the operationId; else the built-in work of its kind. */
function workFinder(options: RuntimeOptions, given: ReadonlyMap<string, FlowNode>, flows: ChildFlows): WorkOf {
  const { workflows = {}, store, partial = false, work: works = true } = options;
  const context = { store, workflows, flows, elsewhere: partial };
  const made = new Map<PlannedNode, FlowNode | undefined>();
  return (node) => {
    if (made.has(node)) return made.get(node);
    // A runtime that delivers nothing need not have the workflows.
    const child = () => (works ? subworkflow(node, context) : undefined);
    const work = given.get(node.operationId) ?? (node.kind === "subworkflow" ? child() : passOn(node));
    made.set(node, work);
    return work;
  };
}

function checkNodes(plans: readonly FlowPlan[], { partial = false, work = true }: RuntimeOptions, workOf: WorkOf): void {
  if (partial || !work) return;
  const missing = plans.flatMap(({ id, nodes }) =>
    [...nodes.values()].filter((node) => workOf(node) === undefined).map(({ operationId }) => `${operationId} (flow ${id})`),
  );
  if (missing.length === 0) return;
  throw new ConfigurationError(
    `[onceflow] missing nodes: ${missing.join(", ")}; add them to \`nodes\`, or set \`partial\` if other processes run them`,
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
