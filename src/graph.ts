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
export { type TypedInput, type TypedNode, type TypedOutput, typedNode } from "./graph/node/typed.js";
export type { PacketProblem, PacketType } from "./graph/packets.js";
export type { FlowPlan, PlannedDelivery, PlannedEdge, PlannedEntry, PlannedKey, PlannedNode, PlannedPort } from "./graph/plan.js";
export type { Listener, RuntimeEvent } from "./graph/runtime/event.js";
export type { HistoryEntry } from "./graph/runtime/history.js";
export type { NodeMetrics, RuntimeMetrics } from "./graph/runtime/metrics.js";
export type { FlowOutput } from "./graph/runtime/payload.js";
export type { PrivateWebhooks } from "./graph/runtime/private-address.js";
export { createRuntime, type FlowInfo, type Page, type Runtime, type WaitOptions } from "./graph/runtime/runtime.js";
export type { RuntimeOptions } from "./graph/runtime/runtime-options.js";
export type { Triggered, TriggerOptions } from "./graph/runtime/trigger.js";
export type { DeadLetterDetails, DeadLetterView, ExecutionDetails, ExecutionView, NoteView, PacketView } from "./graph/runtime/views.js";
export { ExecutionNotFoundError, WaitTimeoutError } from "./graph/runtime/wait-errors.js";
export { toSarif } from "./graph/sarif.js";
export type { JsonSchema } from "./graph/schema-compiler.js";
export type { Substitute, Unsupported } from "./graph/substitutes.js";
