import { ConfigurationError } from "../../../core/errors/errors.js";
import type { Store } from "../../../core/store/store.js";
import { start } from "../../../workflow/client/start.js";
import type { WorkflowFunction } from "../../../workflow/define/definition.js";
import { dataOf } from "../../node/input-data.js";
import { type FlowNode, type NodeFunction, type NodeInput, NodeOutput } from "../../node/node.js";
import { NodeError } from "../../node/node-error.js";
import type { FlowPlan, PlannedNode } from "../../plan/plan.js";
import type { Data, FlowOutput } from "../delivery/payload.js";

export interface ChildFlows {
  /** Triggers a flow under a key, in the scope of the execution that calls it, and waits until it has ended. */
  run(
    flow: string,
    entry: string | undefined,
    data: Data,
    key: string,
    caller: Pick<NodeInput["context"], "signal" | "executionId">,
  ): Promise<{ readonly status: string; readonly outputs: readonly FlowOutput[] }>;
}

/**
 * A node of kind `subworkflow`: `settings.flow` names a flow of this runtime, `settings.workflow` a durable workflow. The
 * child's id is made from the packet. This prevents a second child: if the worker dies after it started the child, the packet is
 * delivered again, and the second start finds the first child.
 */
export function subworkflow(
  plan: PlannedNode,
  {
    store,
    workflows,
    flows,
    elsewhere,
  }: {
    readonly store: Store;
    readonly workflows: Readonly<Record<string, WorkflowFunction>>;
    readonly flows: ChildFlows;
    /** Another process may have the workflow that is missing here. */
    readonly elsewhere: boolean;
  },
): NodeFunction | undefined {
  const { flow, workflow, entry } = plan.settings as { readonly flow?: unknown; readonly workflow?: unknown; readonly entry?: unknown };
  const port = plan.outputs[0]?.name ?? "out";
  if (typeof workflow === "string") {
    const called = Object.hasOwn(workflows, workflow) ? workflows[workflow] : undefined;
    if (called === undefined && elsewhere) return undefined;
    if (called === undefined) throw misses(plan, `settings.workflow: "${workflow}" is not in the runtime's option workflows`);
    return child(async (input) => {
      const run = await start(called as WorkflowFunction<[Data], unknown>, [dataOf(input)], { id: idOf(input), store });
      const result: unknown = await run.returnValue;
      return new NodeOutput().send(port, isData(result) ? result : { result });
    });
  }
  if (typeof flow !== "string") throw misses(plan, "settings.flow or settings.workflow must name the flow or workflow to run");
  return child(async (input) => {
    const { status, outputs } = await flows.run(
      flow,
      typeof entry === "string" ? entry : undefined,
      dataOf(input),
      idOf(input),
      input.context,
    );
    if (status !== "completed")
      throw new NodeError("PERMANENT", `flow "${flow}" ended with dead letters; retry them, then retry this packet`);
    const output = new NodeOutput();
    for (const { data } of outputs) output.send(port, data);
    return output;
  });
}

const children = new WeakSet<FlowNode>();

function child(node: NodeFunction): NodeFunction {
  children.add(node);
  return node;
}

/** Whether the node is a built-in one that starts a child and waits for it: no user code runs in it. */
export function startsChild(work: FlowNode | undefined): boolean {
  return work !== undefined && children.has(work);
}

/** Throws if a node names an unknown flow, or if a flow runs itself through its subworkflows and would never end. */
export function checkChildren(plans: readonly FlowPlan[], replaced: (node: PlannedNode) => boolean): void {
  const children = new Map<string, string[]>();
  for (const { id, nodes } of plans) {
    const named = [...nodes.values()].filter(({ kind, settings, ...node }) => {
      return kind === "subworkflow" && typeof settings["flow"] === "string" && !replaced({ kind, settings, ...node });
    });
    for (const node of named)
      if (!plans.some((plan) => plan.id === node.settings["flow"]))
        throw misses(node, `settings.flow: flow "${String(node.settings["flow"])}" is not in the runtime's documents`);
    children.set(
      id,
      named.map(({ settings }) => settings["flow"] as string),
    );
  }
  for (const id of children.keys()) {
    const seen = new Set<string>();
    const next = [...(children.get(id) ?? [])];
    for (let flow = next.pop(); flow !== undefined; flow = next.pop()) {
      if (flow === id)
        throw new ConfigurationError(`[onceflow] flow "${id}" runs itself through its subworkflows, so it would never end`, {
          code: "SUBWORKFLOW_CIRCLE",
        });
      if (!seen.has(flow)) next.push(...(children.get(flow) ?? []));
      seen.add(flow);
    }
  }
}

function misses({ id }: PlannedNode, what: string): ConfigurationError {
  return new ConfigurationError(`[onceflow] node "${id}" (subworkflow): ${what}`, { code: "SUBWORKFLOW_UNKNOWN" });
}

/** Equal for all deliveries of one packet, different for different packets. */
function idOf({ context: { flowId, nodeId, packetId, idempotencyKey } }: NodeInput): string {
  return `${flowId}/${nodeId}/${idempotencyKey ?? packetId}`;
}

function isData(value: unknown): value is Data {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
