export type { HistoryEntry } from "../core/packets/history.js";
export type { OperatorOptions, OperatorResult } from "../core/packets/operator.js";
export type { Attributes, AttributeValue } from "../core/values/attributes.js";
export { type Finding, findingText, type Place, type Severity } from "../graph/findings/finding.js";
export { type FindingCode, findingCodes } from "../graph/findings/finding-codes.js";
export { toSarif } from "../graph/findings/sarif.js";
export { type ConvertOptions, convertFlow, formatFlow, type Rewritten, type TextOptions } from "../graph/format/format.js";
export type { GeneratedFile } from "../graph/generate/generated-file.js";
export { generateGo } from "../graph/generate/go/go.js";
export { generateDocs } from "../graph/generate/markdown.js";
export { generatePython } from "../graph/generate/python/python.js";
export { generateTypeScript } from "../graph/generate/typescript.js";
export type { Limits } from "../graph/load/limits.js";
export { type FlowSource, type LoadedFlows, type LoadOptions, loadFlows } from "../graph/load/load-flows.js";
export { BaseNode, type FlowNode, type Handled, type NodeContext, type NodeFunction, NodeInput, NodeOutput } from "../graph/node/node.js";
export { NodeError, type NodeErrorCode, nodeErrorCodes } from "../graph/node/node-error.js";
export { Packet } from "../graph/node/packet.js";
export { type TypedInput, type TypedNode, type TypedOutput, typedNode } from "../graph/node/typed.js";
export type {
  Alert,
  BackendName,
  BusName,
  DeliveryMode,
  DocumentInfo,
  ExecutionLimits as Execution,
  NodeKind,
  NodeRuntime,
  Protocol,
  Recovery,
  RetryPolicy,
  StoreName,
  Webhook,
  WebhookKey,
  WebhookSignature,
} from "../graph/normalise/model.js";
export type { Evaluated, Expression, Travelling } from "../graph/plan/expression.js";
export type { KeyContext, KeyMaker } from "../graph/plan/key-maker.js";
export type { PacketProblem, PacketType } from "../graph/plan/packets.js";
export type { FlowPlan, PlannedDelivery, PlannedEdge, PlannedEntry, PlannedKey, PlannedNode, PlannedPort } from "../graph/plan/plan.js";
export type { Substitute, Unsupported } from "../graph/plan/substitutes.js";
export type { PrivateWebhooks } from "../graph/runtime/alerts/private-address.js";
export type { FlowOutput } from "../graph/runtime/delivery/payload.js";
export type { HistoryLevel, HistoryOptions } from "../graph/runtime/history/history-options.js";
export type { PacketTrace } from "../graph/runtime/history/packet-view.js";
export type { HistoryItem, HistoryPage, HistoryQuery, HistoryValues } from "../graph/runtime/history/read-history.js";
export type { RecordedValue } from "../graph/runtime/history/values.js";
export { createRuntime, type ExecutionsQuery, type FlowInfo, type Page, type Runtime, type WaitOptions } from "../graph/runtime/runtime.js";
export type { RuntimeOptions } from "../graph/runtime/runtime-options.js";
export type { Triggered, TriggerOptions } from "../graph/runtime/trigger.js";
export type { Listener, RuntimeEvent } from "../graph/runtime/views/event.js";
export type { NodeMetrics, RuntimeMetrics } from "../graph/runtime/views/metrics.js";
export type {
  DeadLetterDetails,
  DeadLetterView,
  ExecutionDetails,
  ExecutionView,
  NoteView,
  PacketView,
} from "../graph/runtime/views/views.js";
export { ExecutionNotFoundError, WaitTimeoutError } from "../graph/runtime/views/wait-errors.js";
export type { JsonSchema } from "../graph/schema/compiler.js";
