import type { PlannedNode } from "../../plan/plan.js";
import type { Manifest } from "../server/manifest.js";
import type { RemoteServer } from "./remote-nodes.js";

/**
 * Asks every server for its manifest, all at the same time, for 5 s at most. Returns what does not fit: each is a warning, because
 * a server may be started or deployed later, and its deliveries are retried until then.
 */
export async function checkServers(servers: readonly RemoteServer[]): Promise<readonly string[]> {
  const problems = await Promise.all(
    servers.map(async ({ client, nodes }) => {
      try {
        const manifest = await client.manifest();
        return [...nodes].flatMap((node) => problemsOf(node, manifest, client.url));
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error);
        const names = [...nodes].map(({ operationId }) => operationId).join(", ");
        return [`${why} (nodes: ${names}; their deliveries are retried until the server answers)`];
      }
    }),
  );
  return problems.flat();
}

function problemsOf({ id, operationId, inputs, outputs }: PlannedNode, { nodes }: Manifest, url: string): readonly string[] {
  const listed = nodes.find((node) => node.operationId === operationId);
  if (listed === undefined) {
    const names = nodes.map((node) => node.operationId).join(", ") || "none";
    return [`${url} has no node "${operationId}" (nodes: ${names}); deploy it there, or correct the registry or the document`];
  }
  return [
    ...missing(inputs, listed.inputs).map(
      (port) => `node "${operationId}" at ${url} has no input port "${port}", which node "${id}" declares`,
    ),
    ...missing(outputs, listed.outputs).map(
      (port) => `node "${operationId}" at ${url} has no output port "${port}", which node "${id}" declares`,
    ),
  ].map((problem) => `${problem}; correct the document, or deploy the version that has it`);
}

/** Ports of the document that the server does not have. Empty if one of the two does not list its ports. */
function missing(declared: PlannedNode["inputs"], listed: readonly string[] | undefined): readonly string[] {
  return listed === undefined ? [] : declared.map(({ name }) => name).filter((name) => !listed.includes(name));
}

export function warnOfServers(problems: readonly string[]): void {
  for (const problem of problems) process.emitWarning(`[onceflow] ${problem}`, { type: "OnceflowWarning", code: "ONCEFLOW_NODE_SERVER" });
}
