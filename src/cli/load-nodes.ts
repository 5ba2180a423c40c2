import { statSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { RuntimeOptions } from "../exports/graph.js";
import { ConfigurationError } from "../exports/index.js";

export type NodesModule = Required<Pick<RuntimeOptions, "nodes">> & Pick<RuntimeOptions, "workflows">;

/**
 * Imports a module and returns its nodes (export `nodes` or the default export: an object keyed by operationId, or an array)
 * and its export `workflows`, which nodes of kind subworkflow run. TypeScript and directives work without a build.
 */
export async function loadNodes(file: string): Promise<NodesModule> {
  const module = await loaded(file);
  const nodes = module.nodes ?? module.default;
  if (typeof nodes !== "object" || nodes === null)
    throw unreadable(`${file} must export \`nodes\` (or a default export): an object keyed by operationId, or an array of nodes`);
  return {
    nodes: nodes as NodesModule["nodes"],
    ...(module.workflows === undefined ? {} : { workflows: module.workflows as NonNullable<NodesModule["workflows"]> }),
  };
}

async function loaded(file: string): Promise<{ nodes?: unknown; default?: unknown; workflows?: unknown }> {
  const path = resolve(file);
  if (!statSync(path, { throwIfNoEntry: false })?.isFile()) throw unreadable(`file not found: ${file}`);
  await import("../exports/register.js");
  try {
    return (await import(pathToFileURL(path).href)) as object;
  } catch (error) {
    throw unreadable(`${file} cannot be loaded: ${whyOf(error)}`, error);
  }
}

/** The error with its stack frames in user code, without frames of Onceflow or Node. */
function whyOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const places = (error.stack ?? "")
    .split("\n")
    .filter((line) => /^\s+at /.test(line) && !/node:internal|\/dist\/(?:cli|transform)\//.test(line));
  return [`${error.name}: ${error.message}`, ...places].join("\n");
}

const unreadable = (message: string, cause?: unknown): ConfigurationError =>
  new ConfigurationError(`[onceflow] --nodes: ${message}`, { code: "NODES_UNREADABLE", cause });
