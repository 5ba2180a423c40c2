import { schemas } from "./openapi-schemas.js";

const parameter = (where: "path" | "query", name: string, description: string, schema: object = { type: "string" }) => ({
  name,
  in: where,
  description,
  required: where === "path",
  schema,
});
const flowId = parameter("path", "flow", "The id of a flow");
const letterId = parameter("path", "letter", "The id of a dead letter");
const page = [
  parameter("query", "limit", "Maximum number of items", { type: "integer", minimum: 1, maximum: 1000, default: 100 }),
  parameter("query", "before", "Continue after this id: `next` of the previous page"),
];

type SchemaName = keyof typeof schemas;
const json = (name: SchemaName) => ({ "application/json": { schema: { $ref: `#/components/schemas/${name}` } } });
const answer = (description: string, name?: SchemaName) => ({ description, ...(name === undefined ? {} : { content: json(name) }) });
const problem = (description: string) => ({
  description,
  content: { "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } } },
});
const absent = problem("Not found");
const always = { 401: problem("The bearer token is missing or wrong"), 403: problem("The host or origin is not allowed") };

const cannotRetry = problem("The flow no longer has the packet's edge, or the payload was lost with a process's memory");

interface Operation {
  readonly id: string;
  readonly summary: string;
  readonly parameters?: readonly object[];
  readonly responses: Readonly<Record<number, object>>;
  readonly body?: object;
  readonly deprecated?: true;
}
const operation = ({ id, summary, parameters = [], responses, body, deprecated }: Operation) => ({
  operationId: id,
  summary,
  ...(deprecated ? { deprecated } : {}),
  parameters,
  ...(body === undefined ? {} : { requestBody: { required: true, content: { "application/json": { schema: body } } } }),
  responses: { ...responses, ...always },
});

const triggerFlow = operation({
  id: "triggerFlow",
  summary: "Trigger a flow: send it a packet. The packet is durable before the response; the same key returns the first execution",
  parameters: [
    flowId,
    parameter("query", "entry", "Entry point to trigger (required if the flow has several)"),
    { ...parameter("query", "Idempotency-Key", "Idempotency key of this trigger, bare or quoted"), in: "header" },
  ],
  body: { type: "object", additionalProperties: true },
  responses: {
    202: { ...answer("Accepted", "Triggered"), headers: { Location: { schema: { type: "string" } } } },
    200: answer(
      "The key was already used (Idempotent-Replayed: true), the entry point's filter rejected the payload, or the flow stores nothing and has run",
      "Triggered",
    ),
    400: problem("The payload, the key or a parameter is invalid; `problems` lists what is wrong with the payload"),
    404: absent,
    409: problem("The flow is archived, or it is paused and stores nothing"),
    413: problem("The body is too long"),
    415: problem("The body is not JSON"),
    422: problem("The key was already used with a different payload"),
    503: problem("The store is unreachable, or the server is shutting down"),
  },
});

/** The document does not list the webhooks of this runtime: it is the same for every runtime. */
const receiveWebhook = (method: "Post" | "Put") => ({
  operationId: `receiveWebhook${method}`,
  summary:
    "Receive an event at the path of a webhook entry point. Requires a valid signature instead of the token; the packet is durable before the response",
  security: [],
  parameters: [parameter("path", "path", "The path of the webhook, without /webhooks/")],
  requestBody: { required: true, content: { "application/json": { schema: { type: "object", additionalProperties: true } } } },
  responses: {
    200: answer("The event was accepted, was already known by its key, or was rejected by the entry point's filter", "Triggered"),
    400: problem("The body is not a JSON object, has no key, or is not valid for this flow"),
    401: problem("The signature is missing, wrong or too old"),
    404: problem("No webhook has this path"),
    405: problem("The webhook has another method"),
    409: problem("The flow is archived, or it is paused and stores nothing"),
    413: problem("The body is too long"),
    415: problem("The body is not JSON"),
    503: problem("The store is unreachable, or the server is shutting down: send the event again"),
  },
});

const stateChange = (verb: string, summary: string) => ({
  post: operation({
    id: `${verb}Flow`,
    summary,
    parameters: [flowId],
    responses: { 200: answer("The flow's new state", "FlowState"), 404: absent },
  }),
});

/** The OpenAPI document, written by hand; a test compares it with the routes. */
export const openApi = {
  openapi: "3.1.0",
  info: { title: "Onceflow", version: "1", summary: "Trigger flows, inspect executions and dead letters, subscribe to events." },
  servers: [{ url: "/" }],
  security: [{}, { bearer: [] }],
  paths: {
    "/flows": {
      get: operation({ id: "listFlows", summary: "List the flows of this runtime", responses: { 200: answer("All flows", "FlowList") } }),
    },
    "/flows/{flow}": {
      get: operation({
        id: "showFlow",
        summary: "Show a flow: nodes, edges and the number of packets in each queue",
        parameters: [flowId],
        responses: { 200: answer("The flow", "FlowDetails"), 404: absent },
      }),
    },
    "/flows/{flow}/trigger": { post: triggerFlow },
    "/flows/{flow}/pause": stateChange("pause", "Pause a flow: stop deliveries, still accept triggers"),
    "/flows/{flow}/resume": stateChange("resume", "Resume a paused or archived flow"),
    "/flows/{flow}/archive": stateChange("archive", "Archive a flow: stop deliveries and reject triggers"),
    "/flows/{flow}/dead-letters": {
      get: operation({
        id: "listDeadLetters",
        summary: "List the dead letters of a flow (packets that failed for good), newest first",
        parameters: [flowId, parameter("query", "queue", "Only this dead-letter queue"), ...page],
        responses: { 200: answer("A page of dead letters", "DeadLetterList"), 400: problem("A parameter is invalid"), 404: absent },
      }),
    },
    "/flows/{flow}/dead-letters/{letter}": {
      get: operation({
        id: "showDeadLetter",
        summary: "Show a dead letter with its payload and the error of each attempt",
        parameters: [flowId, letterId],
        responses: { 200: answer("The dead letter", "DeadLetterDetails"), 404: absent },
      }),
      delete: operation({
        id: "discardDeadLetter",
        summary: "Discard a dead letter: remove it permanently",
        parameters: [flowId, letterId],
        responses: { 204: answer("The dead letter was removed"), 404: absent },
      }),
    },
    "/flows/{flow}/dead-letters/{letter}/retry": {
      post: operation({
        id: "retryDeadLetter",
        summary: "Retry a dead letter: deliver the packet again with the same key; its history is kept",
        parameters: [flowId, letterId],
        responses: { 200: answer("The packet is due", "Retried"), 404: absent, 409: cannotRetry },
      }),
    },
    "/flows/{flow}/dead-letters/{letter}/reinject": {
      post: operation({
        id: "reinjectDeadLetter",
        summary: "Deprecated name of retryDeadLetter",
        deprecated: true,
        parameters: [flowId, letterId],
        responses: { 200: answer("The packet is due", "Reinjected"), 404: absent, 409: cannotRetry },
      }),
    },
    "/executions": {
      get: operation({
        id: "listExecutions",
        summary: "List executions, newest first",
        parameters: [
          parameter("query", "flow", "Only this flow"),
          parameter("query", "status", "Only this status", { enum: ["running", "completed", "dead"] }),
          parameter("query", "scope", "Only executions of this scope; empty: only those without one"),
          ...page,
        ],
        responses: { 200: answer("A page of executions", "ExecutionList"), 400: problem("A parameter is invalid") },
      }),
    },
    "/executions/{execution}": {
      get: operation({
        id: "showExecution",
        summary: "Show an execution: input, outputs, notes about unusual events, and open packets",
        parameters: [
          parameter("path", "execution", "The id of an execution"),
          parameter("query", "wait", "Seconds to wait until it ends, limited by the server", { type: "integer", minimum: 0 }),
        ],
        responses: {
          200: answer("The execution, ended or still running", "ExecutionDetails"),
          400: problem("A parameter is invalid"),
          404: absent,
        },
      }),
    },
    "/executions/{execution}/history": {
      get: operation({
        id: "showExecutionHistory",
        summary: "Show the history of an execution, oldest first: its recorded deliveries, and unusual events",
        parameters: [
          parameter("path", "execution", "The id of an execution"),
          parameter("query", "limit", "Maximum number of lines", { type: "integer", minimum: 1, maximum: 1000, default: 100 }),
          parameter("query", "cursor", "Continue here: `next` of the previous page"),
          parameter("query", "values", "Also recorded inputs and outputs, and messages of errors", {
            enum: ["true", "false"],
            default: "false",
          }),
        ],
        responses: {
          200: answer("A page of the history", "History"),
          400: problem("A parameter is invalid"),
          404: absent,
        },
      }),
    },
    "/webhooks/{path}": { post: receiveWebhook("Post"), put: receiveWebhook("Put") },
    "/events": {
      get: operation({
        id: "listen",
        summary: "Subscribe to the events of this process (server-sent events); `dropped` counts events that a slow client missed",
        parameters: [parameter("query", "flow", "Only this flow"), parameter("query", "execution", "Only this execution")],
        responses: {
          200: {
            description: "A stream that stays open until either side closes it",
            content: { "text/event-stream": { schema: { type: "string" } } },
          },
          503: problem("Too many clients are subscribed, or the server is shutting down"),
        },
      }),
    },
    "/health": {
      get: operation({
        id: "health",
        summary: "Check whether the store is reachable. Requires no token",
        responses: { 200: answer("The store is reachable", "Health"), 503: answer("The store is unreachable", "Health") },
      }),
    },
    "/metrics": {
      get: operation({
        id: "metrics",
        summary: "Counters and queue sizes in the Prometheus text format",
        responses: { 200: { description: "The metrics", content: { "text/plain": { schema: { type: "string" } } } } },
      }),
    },
    "/openapi.json": {
      get: operation({ id: "openApi", summary: "This document", responses: { 200: { description: "The OpenAPI document" } } }),
    },
  },
  components: {
    schemas,
    securitySchemes: { bearer: { type: "http", scheme: "bearer", description: "Required if the server has a token" } },
  },
};
