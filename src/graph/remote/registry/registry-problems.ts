import { nearest } from "../../../core/errors/known-options.js";
import type { Finding } from "../../findings/finding.js";
import { findingCodes } from "../../findings/finding-codes.js";
import type { FlowPlan, PlannedEdge, PlannedNode } from "../../plan/plan.js";
import { addressOf } from "./document-address.js";
import type { NodeRegistry, RegistryServer } from "./load-registry.js";

/** What does not fit between documents and a registry. */
export function registryProblems({ nodes }: Pick<NodeRegistry, "nodes">, flows: readonly FlowPlan[]): readonly Finding[] {
  const operationIds = new Set(flows.flatMap((plan) => [...plan.nodes.values()].map(({ operationId }) => operationId)));
  const misspelt = misspeltEntries({ nodes }, operationIds).map(({ operationId, place, meant }) =>
    finding("FLOW_UNKNOWN_FIELD", place, `no document has node "${operationId}"`, `did you mean "${meant}"?`),
  );
  const unfit = flows.flatMap((plan) => {
    const planned = [...plan.nodes.values()];
    const clashes = planned.flatMap((node): Finding[] => {
      const server = nodes.get(node.operationId)?.server;
      const edge = server && edgeWithOtherProtocol(node, server);
      if (edge === undefined) return [];
      const message = `the edge asks for protocol ${edge.protocol}, but the registry has node "${node.operationId}" over another one`;
      return [finding("FLOW_PROTOCOL", edge.place, message, "change the edge or the registry")];
    });
    const homeless = plan.unsupported.flatMap(({ operationId, asked, place }): Finding[] => {
      const node = planned.find((each) => each.operationId === operationId);
      if (node === undefined || nodes.has(node.operationId) || addressOf(node) !== undefined) return [];
      const message = `${asked}: the registry does not have node "${node.operationId}"`;
      return [finding("FLOW_UNSUPPORTED", place, message, "add it to the registry, or pass its code to the runtime (`nodes`)")];
    });
    return [...clashes, ...homeless];
  });
  return [...misspelt, ...unfit];
}

/** Nodes of the registry that no document has, and whose name is nearly that of a node: the entry would silently have no effect. */
export function misspeltEntries({ nodes }: Pick<NodeRegistry, "nodes">, operationIds: ReadonlySet<string>) {
  return [...nodes.values()].flatMap(({ operationId, place }) => {
    const meant = operationIds.has(operationId) ? undefined : nearest(operationId, [...operationIds]);
    return meant === undefined ? [] : [{ operationId, place, meant }];
  });
}

/** An edge that asks for another protocol than that of the server. */
export function edgeWithOtherProtocol({ incoming }: PlannedNode, { url }: RegistryServer): PlannedEdge | undefined {
  const has = url.startsWith("grpc") ? "grpc" : "http";
  return incoming.find(({ protocol }) => (protocol === "http" || protocol === "grpc") && protocol !== has);
}

function finding(code: Finding["code"], place: FlowPlan["place"], message: string, fix: string): Finding {
  return { ...place, code, severity: findingCodes[code].severity, message, fix };
}
