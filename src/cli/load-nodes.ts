import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { RuntimeOptions } from "../graph.js";
import { ConfigurationError } from "../index.js";

export type NodesModule = Required<Pick<RuntimeOptions, "nodes">> & Pick<RuntimeOptions, "workflows">;

/**
 * What a module exports as `nodes`, or by default: an object by operationId, or a list of nodes; and, as `workflows`, what
 * its nodes of kind subworkflow run. TypeScript is run as it is, directives included.
 */
export async function loadNodes(file: string): Promise<NodesModule> {
  const path = resolve(file);
  if (!existsSync(path)) throw new ConfigurationError(`[onceflow] --nodes: there is no file ${file}`, { code: "NODES_UNREADABLE" });
  await import("../register.js");
  const module = (await import(pathToFileURL(path).href)) as { nodes?: unknown; default?: unknown; workflows?: unknown };
  const nodes = module.nodes ?? module.default;
  if (typeof nodes !== "object" || nodes === null)
    throw new ConfigurationError(
      `[onceflow] --nodes: ${file} exports no \`nodes\`, and nothing by default: an object by operationId, or a list of nodes`,
      {
        code: "NODES_UNREADABLE",
      },
    );
  return {
    nodes: nodes as NodesModule["nodes"],
    ...(module.workflows === undefined ? {} : { workflows: module.workflows as NonNullable<NodesModule["workflows"]> }),
  };
}
