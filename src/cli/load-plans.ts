import { type FlowPlan, findingText, loadFlows } from "../graph.js";
import { ConfigurationError } from "../index.js";
import { flowFiles } from "./flow-files.js";

/** Plans of all documents, before a store is opened: of a document that cannot be run, nothing is written. */
export async function loadPlans(paths: readonly string[]): Promise<readonly FlowPlan[]> {
  const plans: FlowPlan[] = [];
  const errors: string[] = [];
  for (const file of flowFiles(paths)) {
    const { flows, findings } = await loadFlows(file);
    plans.push(...flows);
    errors.push(...findings.filter(({ severity }) => severity === "error").map(findingText));
  }
  if (errors.length === 0) return plans;
  throw new ConfigurationError(`[onceflow] a flow document cannot be run:\n${errors.join("\n")}`, { code: "FLOW_INVALID" });
}
