export type { Evaluated, Expression, Travelling } from "./graph/expression.js";
export { type Finding, findingText, type Place, type Severity } from "./graph/finding.js";
export { type FindingCode, findingCodes } from "./graph/finding-codes.js";
export { type ConvertOptions, convertFlow, formatFlow, type Rewritten, type TextOptions } from "./graph/format.js";
export { generateDocs } from "./graph/generate/markdown.js";
export { type GeneratedFile, generateTypeScript } from "./graph/generate/typescript.js";
export type { KeyContext, KeyMaker } from "./graph/key-maker.js";
export type { Limits } from "./graph/limits.js";
export { type FlowSource, type LoadedFlows, type LoadOptions, loadFlows } from "./graph/load-flows.js";
export type {
  Alert,
  BackendName,
  BusName,
  DeliveryMode,
  DocumentInfo,
  Execution,
  NodeKind,
  NodeRuntime,
  Protocol,
  Recovery,
  RetryPolicy,
  StoreName,
} from "./graph/model.js";
export { BaseNode, type FlowNode, type Handled, type NodeContext, type NodeFunction, NodeInput, NodeOutput } from "./graph/node/node.js";
export { NodeError, type NodeErrorCode, nodeErrorCodes } from "./graph/node/node-error.js";
export { Packet } from "./graph/node/packet.js";
export type { PacketProblem, PacketType } from "./graph/packets.js";
export type { FlowPlan, PlannedDelivery, PlannedEdge, PlannedEntry, PlannedKey, PlannedNode, PlannedPort } from "./graph/plan.js";
export { toSarif } from "./graph/sarif.js";
export type { JsonSchema } from "./graph/schema-compiler.js";
