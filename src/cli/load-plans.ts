import { type FlowPlan, findingText, type LoadOptions, loadFlows } from "../exports/graph.js";
import { ConfigurationError } from "../exports/index.js";
import { flowFiles } from "./flow-files.js";
import { note } from "./output.js";

/** Loads the plans of all documents before a store is opened, so that an invalid document writes nothing. */
export async function loadPlans(paths: readonly string[], options: LoadOptions): Promise<readonly FlowPlan[]> {
  const plans: FlowPlan[] = [];
  const errors: string[] = [];
  for (const file of flowFiles(paths)) {
    const { flows, findings } = await loadFlows(file, options);
    plans.push(...flows);
    // An unknown field may be a typo, whose setting would silently have no effect.
    for (const finding of findings) if (finding.code === "FLOW_UNKNOWN_FIELD") note(findingText(finding));
    errors.push(...findings.filter(({ severity }) => severity === "error").map(findingText));
  }
  if (errors.length === 0) return plans;
  throw new ConfigurationError(`[onceflow] a flow document cannot be run:\n${errors.join("\n")}`, { code: "FLOW_INVALID" });
}
