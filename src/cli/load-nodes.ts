import { statSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { RuntimeOptions } from "../exports/graph.js";
import { ConfigurationError } from "../exports/index.js";

export type NodesModule = Required<Pick<RuntimeOptions, "nodes">> & Pick<RuntimeOptions, "workflows">;

/**
 * What a module exports as `nodes`, or by default: an object by operationId, or a list of nodes; and, as `workflows`, what
 * its nodes of kind subworkflow run. TypeScript is run as it is, directives included.
 */
export async function loadNodes(file: string): Promise<NodesModule> {
  const module = await loaded(file);
  const nodes = module.nodes ?? module.default;
  if (typeof nodes !== "object" || nodes === null)
    throw unreadable(`${file} exports no \`nodes\`, and nothing by default: an object by operationId, or a list of nodes`);
  return {
    nodes: nodes as NodesModule["nodes"],
    ...(module.workflows === undefined ? {} : { workflows: module.workflows as NonNullable<NodesModule["workflows"]> }),
  };
}

async function loaded(file: string): Promise<{ nodes?: unknown; default?: unknown; workflows?: unknown }> {
  const path = resolve(file);
  if (!statSync(path, { throwIfNoEntry: false })?.isFile()) throw unreadable(`there is no file ${file}`);
  await import("../exports/register.js");
  try {
    return (await import(pathToFileURL(path).href)) as object;
  } catch (error) {
    throw unreadable(`${file} cannot be loaded: ${whyOf(error)}`, error);
  }
}

/** What was thrown, and the places in its own code that led there; not those in ours, or in Node. */
function whyOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const places = (error.stack ?? "")
    .split("\n")
    .filter((line) => /^\s+at /.test(line) && !/node:internal|\/dist\/(?:cli|transform)\//.test(line));
  return [`${error.name}: ${error.message}`, ...places].join("\n");
}

const unreadable = (message: string, cause?: unknown): ConfigurationError =>
  new ConfigurationError(`[onceflow] --nodes: ${message}`, { code: "NODES_UNREADABLE", cause });
