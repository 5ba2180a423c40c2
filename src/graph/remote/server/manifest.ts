import { readFileSync } from "node:fs";
import { ownUrl } from "../../../core/work/own-url.js";
import type { NodeDescription, NodeServerPolicy } from "./options.js";

/** The version of the protocol between a runtime and a node server. */
const protocolName = "flowdsl.node.v1";

/** What a node server says about itself. */
export interface Manifest {
  readonly protocol: string;
  readonly sdk: { readonly language: string; readonly version: string };
  readonly nodes: readonly (NodeDescription & { readonly operationId: string })[];
}

export function manifestOf({ nodes, descriptions }: Pick<NodeServerPolicy, "nodes" | "descriptions">): Manifest {
  return {
    protocol: protocolName,
    sdk: { language: "nodejs", version: version() },
    nodes: [...nodes.keys()].map((operationId) => ({ operationId, ...descriptions.get(operationId) })),
  };
}

/** The version of this package; "unknown" in a bundle, which has no package.json beside it. */
function version(): string {
  try {
    const { name, version } = JSON.parse(readFileSync(new URL("../../../../package.json", ownUrl), "utf8")) as Record<string, unknown>;
    return name === "onceflow" ? String(version) : "unknown";
  } catch {
    return "unknown";
  }
}
