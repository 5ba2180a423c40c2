import { loadRegistry, type NodeRegistry } from "../exports/graph/remote.js";
import { findingText } from "../exports/graph.js";
import { ConfigurationError } from "../exports/index.js";

/** Loads a registry of node servers. Throws ConfigurationError (`REGISTRY_INVALID`) with all its errors. */
export async function usableRegistry(file: string): Promise<NodeRegistry> {
  const { ok, registry, findings } = await loadRegistry(file);
  if (ok) return registry;
  throw new ConfigurationError(`[onceflow] the registry of nodes cannot be used:\n${findings.map(findingText).join("\n")}`, {
    code: "REGISTRY_INVALID",
  });
}
