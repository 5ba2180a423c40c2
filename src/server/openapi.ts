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
  parameter("query", "limit", "At most so many", { type: "integer", minimum: 1, maximum: 1000, default: 100 }),
  parameter("query", "before", "The last one of the page before (`next`)"),
];

type SchemaName = keyof typeof schemas;
const json = (name: SchemaName) => ({ "application/json": { schema: { $ref: `#/components/schemas/${name}` } } });
const answer = (description: string, name?: SchemaName) => ({ description, ...(name === undefined ? {} : { content: json(name) }) });
const problem = (description: string) => ({
  description,
  content: { "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } } },
});
const absent = problem("There is no such thing");
const always = { 401: problem("The bearer token is missing or wrong"), 403: problem("The host or the origin is refused") };

interface Operation {
  readonly id: string;
  readonly summary: string;
  readonly parameters?: readonly object[];
  readonly responses: Readonly<Record<number, object>>;
  readonly body?: object;
}
const operation = ({ id, summary, parameters = [], responses, body }: Operation) => ({
  operationId: id,
  summary,
  parameters,
  ...(body === undefined ? {} : { requestBody: { required: true, content: { "application/json": { schema: body } } } }),
  responses: { ...responses, ...always },
});

const triggerFlow = operation({
  id: "triggerFlow",
  summary: "Put a packet into a flow. Durable when it is answered; the same key again is the same execution",
  parameters: [
    flowId,
    parameter("query", "entry", "The node to enter at, where there are several"),
    { ...parameter("query", "Idempotency-Key", "Names this trigger, bare or quoted"), in: "header" },
  ],
  body: { type: "object", additionalProperties: true },
  responses: {
    202: { ...answer("Taken", "Triggered"), headers: { Location: { schema: { type: "string" } } } },
    200: answer(
      "The key was used before (Idempotent-Replayed: true), the entry's filter does not let it in, or the flow keeps nothing",
      "Triggered",
    ),
    400: problem("The payload, the key or a parameter is wrong; `problems` says where"),
    404: absent,
    409: problem("The flow is archived; or paused, and it keeps nothing"),
    413: problem("The body is too long"),
    415: problem("The body is no JSON"),
    422: problem("The key was used before with another payload"),
    503: problem("The store cannot be reached, or the server is being stopped"),
  },
});

const stateChange = (verb: string, summary: string) => ({
  post: operation({
    id: `${verb}Flow`,
    summary,
    parameters: [flowId],
    responses: { 200: answer("So it is now", "FlowState"), 404: absent },
  }),
});

/** Written by hand, and compared with the routes by a test. */
export const openApi = {
  openapi: "3.1.0",
  info: { title: "Onceflow", version: "1", summary: "Trigger flows, look at executions and dead letters, hear what happens." },
  servers: [{ url: "/" }],
  security: [{}, { bearer: [] }],
  paths: {
    "/flows": {
      get: operation({ id: "listFlows", summary: "The flows of this runtime", responses: { 200: answer("All of them", "FlowList") } }),
    },
    "/flows/{flow}": {
      get: operation({
        id: "showFlow",
        summary: "A flow: its nodes, its edges, and what is in its queues",
        parameters: [flowId],
        responses: { 200: answer("It", "FlowDetails"), 404: absent },
      }),
    },
    "/flows/{flow}/trigger": { post: triggerFlow },
    "/flows/{flow}/pause": stateChange("pause", "Deliver nothing more of it; triggers are still taken"),
    "/flows/{flow}/resume": stateChange("resume", "Go on"),
    "/flows/{flow}/archive": stateChange("archive", "As paused, and refuse triggers"),
    "/flows/{flow}/dead-letters": {
      get: operation({
        id: "listDeadLetters",
        summary: "Packets of a flow that failed for good, newest first",
        parameters: [flowId, parameter("query", "queue", "Of one queue of dead letters"), ...page],
        responses: { 200: answer("A page", "DeadLetterList"), 400: problem("A parameter is wrong"), 404: absent },
      }),
    },
    "/flows/{flow}/dead-letters/{letter}": {
      get: operation({
        id: "showDeadLetter",
        summary: "A dead letter, with its payload and its history",
        parameters: [flowId, letterId],
        responses: { 200: answer("It", "DeadLetterDetails"), 404: absent },
      }),
      delete: operation({
        id: "discardDeadLetter",
        summary: "Remove a dead letter for good",
        parameters: [flowId, letterId],
        responses: { 204: answer("It is gone"), 404: absent },
      }),
    },
    "/flows/{flow}/dead-letters/{letter}/reinject": {
      post: operation({
        id: "reinjectDeadLetter",
        summary: "Deliver it again, with the key and the history that it has",
        parameters: [flowId, letterId],
        responses: { 200: answer("It is due", "Reinjected"), 404: absent, 409: problem("Its edge is not in the flow any more") },
      }),
    },
    "/executions": {
      get: operation({
        id: "listExecutions",
        summary: "Executions, newest first",
        parameters: [
          parameter("query", "flow", "Of one flow"),
          parameter("query", "status", "In one state", { enum: ["running", "completed", "dead"] }),
          ...page,
        ],
        responses: { 200: answer("A page", "ExecutionList"), 400: problem("A parameter is wrong") },
      }),
    },
    "/executions/{execution}": {
      get: operation({
        id: "showExecution",
        summary: "An execution: input, outputs, what happened out of the ordinary, packets that are left",
        parameters: [
          parameter("path", "execution", "Its id"),
          parameter("query", "wait", "Seconds to wait for its end, up to a bound of the server's", { type: "integer", minimum: 0 }),
        ],
        responses: { 200: answer("It, ended or not", "ExecutionDetails"), 400: problem("A parameter is wrong"), 404: absent },
      }),
    },
    "/events": {
      get: operation({
        id: "listen",
        summary: "What happens in this process, as server-sent events; `dropped` says how many did not reach a slow listener",
        parameters: [parameter("query", "flow", "Of one flow"), parameter("query", "execution", "Of one execution")],
        responses: {
          200: { description: "Until one side ends it", content: { "text/event-stream": { schema: { type: "string" } } } },
          503: problem("As many listen as may"),
        },
      }),
    },
    "/health": {
      get: operation({
        id: "health",
        summary: "Whether the store can be reached. Needs no token",
        responses: { 200: answer("It can", "Health"), 503: answer("It cannot", "Health") },
      }),
    },
    "/metrics": {
      get: operation({
        id: "metrics",
        summary: "Counters and queues, in the text format of Prometheus",
        responses: { 200: { description: "Text", content: { "text/plain": { schema: { type: "string" } } } } },
      }),
    },
    "/openapi.json": { get: operation({ id: "openApi", summary: "This document", responses: { 200: { description: "It" } } }) },
  },
  components: {
    schemas,
    securitySchemes: { bearer: { type: "http", scheme: "bearer", description: "Needed where the server was given a token" } },
  },
};
