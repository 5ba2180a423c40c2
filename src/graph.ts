export { type Finding, findingText, type Place, type Severity } from "./graph/finding.js";
export { type FindingCode, findingCodes } from "./graph/finding-codes.js";
export type { Limits } from "./graph/limits.js";
export { type FlowSource, type LoadedFlows, type LoadOptions, loadFlows } from "./graph/load-flows.js";
