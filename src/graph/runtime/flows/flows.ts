import { ConfigurationError } from "../../../core/errors/errors.js";
import { type Finding, findingText } from "../../findings/finding.js";
import { loadFlows } from "../../load/load-flows.js";
import { BaseNode, type FlowNode } from "../../node/node.js";
import type { FlowPlan, PlannedNode } from "../../plan/plan.js";
import { alertRoute } from "../alerts/alert.js";
import { tellWebhooks } from "../alerts/webhook.js";
import type { ResolvedOptions, RuntimeOptions } from "../runtime-options.js";
import type { Routed } from "./route.js";
import { type NodesOption, nodesOf, passOn, route } from "./routes.js";
import { type ChildFlows, checkChildren, subworkflow } from "./subworkflow.js";
import { checkSupported } from "./supported.js";

/** Documents → plans → routes, with the nodes of this process in them. Throws what is wrong, all at once where it can. */
export async function routeFlows(
  options: RuntimeOptions,
  resolved: ResolvedOptions,
  flows: ChildFlows,
): Promise<ReadonlyMap<string, Routed>> {
  const plans = await plansOf(options);
  const given = nodesOf((options.nodes ?? {}) as NodesOption);
  const workOf = workFinder(options, given, flows);
  // Where some nodes are elsewhere, this one may be: what it makes of a payload is not known here.
  const passesOn = ({ kind, operationId }: PlannedNode) =>
    kind === "source" && resolved.work && options.partial !== true && !given.has(operationId);
  const routed = new Map<string, Routed>();
  for (const plan of plans) {
    if (routed.has(plan.id)) throw new ConfigurationError(`[onceflow] two documents have a flow "${plan.id}"`, { code: "FLOW_TWICE" });
    const made = route(plan, workOf, passesOn, resolved.deadRetentionMs);
    routed.set(plan.id, { ...made, routes: new Map([...made.routes, alertRoute(plan, resolved.privateWebhooks)]) });
  }
  checkNodes(plans, options, workOf);
  checkSupported(plans, options);
  checkChildren(plans, ({ operationId }) => given.has(operationId));
  if (resolved.work) tellWebhooks(plans, resolved.privateWebhooks);
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
    tellUnknownFields(findings);
    plans.push(...flows);
  }
  return plans;
}

/** A field that is misspelt asks for something that nothing does. */
function tellUnknownFields(findings: readonly Finding[]): void {
  const unknown = findings.filter(({ code }) => code === "FLOW_UNKNOWN_FIELD").map(findingText);
  if (unknown.length === 0) return;
  process.emitWarning(`a flow document has fields that mean nothing:\n${unknown.join("\n")}`, {
    type: "OnceflowWarning",
    code: "ONCEFLOW_UNKNOWN_FIELD",
  });
}

type WorkOf = (node: PlannedNode) => FlowNode | undefined;

/** What is given for its operationId; else what its kind does by itself. */
function workFinder(options: RuntimeOptions, given: ReadonlyMap<string, FlowNode>, flows: ChildFlows): WorkOf {
  const { workflows = {}, store, partial = false, work: works = true } = options;
  const around = { store, workflows, flows, elsewhere: partial };
  const made = new Map<PlannedNode, FlowNode | undefined>();
  return (node) => {
    if (made.has(node)) return made.get(node);
    // Whoever only triggers and looks has no workflows.
    const child = () => (works ? subworkflow(node, around) : undefined);
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
    `[onceflow] there is no node for ${missing.join(", ")}; add them to \`nodes\`, or set \`partial\` if other processes have them`,
    { code: "NODES_MISSING" },
  );
}

/** Once for each node of each flow: its settings are its own. One object for two nodes is told of both. */
async function initNodes(plans: readonly FlowPlan[], workOf: WorkOf): Promise<void> {
  for (const { nodes } of plans) {
    for (const node of nodes.values()) {
      const work = workOf(node);
      if (work instanceof BaseNode) await work.init(node.settings);
    }
  }
}
