/** JSON Schemas of the responses. Undefined members are omitted from responses. */
const text = { type: "string" } as const;
const number = { type: "integer" } as const;
const instant = { type: "string", format: "date-time" } as const;
const anything = { type: "object", additionalProperties: true } as const;
const listOf = (name: string) => ({ type: "array", items: { $ref: `#/components/schemas/${name}` } }) as const;
const object = (properties: Readonly<Record<string, unknown>>, optional: readonly string[] = []) => ({
  type: "object",
  properties,
  required: Object.keys(properties).filter((name) => !optional.includes(name)),
});

const flow = {
  id: text,
  state: { enum: ["active", "paused", "archived"] },
  title: text,
  version: text,
  summary: text,
  entries: { type: "array", items: object({ node: text, packet: text }, ["packet"]) },
};
const execution = {
  id: text,
  flow: text,
  status: { enum: ["running", "completed", "dead"] },
  entry: text,
  key: text,
  open: number,
  duplicates: number,
  dead: number,
  createdAt: instant,
  endedAt: instant,
  scope: text,
  attributes: anything,
};
const recorded = { text, cut: { type: "boolean" }, bytes: number };
const listed = (members: Record<string, object>) => ({ type: "array", items: object({ ...members, ...recorded }) });
const letter = {
  id: text,
  flow: text,
  queue: text,
  edge: text,
  executionId: text,
  key: text,
  attempts: number,
  deadAt: instant,
  expiresAt: instant,
  error: object({ code: text, message: text }),
};
const executionOptional = ["key", "endedAt"];
const letterOptional = ["executionId", "key", "expiresAt"];

export const schemas = {
  Problem: {
    ...object({ type: text, title: text, status: number, detail: text, problems: listOf("PayloadProblem") }, ["detail", "problems"]),
    description: "RFC 9457. `type` is stable: urn:onceflow:server:… or urn:onceflow:http:…",
  },
  PayloadProblem: object({ pointer: text, message: text }),
  Triggered: object({ executionId: text, status: { enum: ["started", "duplicate", "filtered"] } }, ["executionId"]),
  Flow: object(flow, ["summary"]),
  FlowDetails: object(
    {
      ...flow,
      nodes: { type: "array", items: object({ id: text, operationId: text, kind: text, summary: text }, ["summary"]) },
      edges: {
        type: "array",
        items: object({ id: text, from: anything, to: anything, packet: text, mode: text, key: text, deadLetters: text }, [
          "packet",
          "key",
          "deadLetters",
        ]),
      },
      queues: {
        type: "array",
        items: object({ flow: text, queue: text, due: number, held: number, parts: number, owned: number, dead: number }),
      },
    },
    ["summary"],
  ),
  FlowState: object({ id: text, state: flow.state }),
  FlowList: object({ flows: listOf("Flow") }),
  Execution: object(execution, executionOptional),
  ExecutionList: object({ executions: listOf("Execution"), next: text }, ["next"]),
  ExecutionDetails: object(
    {
      ...execution,
      input: anything,
      outputs: { type: "array", items: object({ node: text, port: text, data: anything }) },
      notes: {
        type: "array",
        items: object({ at: instant, kind: text, edge: text, packetId: text, about: { type: ["string", "null"] } }),
      },
      packets: { type: "array", items: object({ id: text, edge: text, state: text, attempt: number, key: text }, ["key"]) },
    },
    executionOptional,
  ),
  History: object(
    {
      history: {
        type: "array",
        items: object(
          {
            ...{ verdict: text, at: instant, packetId: text, edge: text, node: text, attempt: number, startedAt: instant, ms: number },
            ...{ code: text, message: text, about: text },
            ...{ sent: { type: "array", items: text }, joined: { type: "array", items: text } },
            values: object({
              input: listed({ port: text }),
              sent: listed({ edge: text }),
              outputs: listed({ node: text, port: text }),
              more: number,
            }),
          },
          ["node", "attempt", "startedAt", "ms", "code", "message", "about", "values"],
        ),
      },
      next: text,
    },
    ["next"],
  ),
  DeadLetter: object(letter, letterOptional),
  DeadLetterList: object({ deadLetters: listOf("DeadLetter"), next: text }, ["next"]),
  DeadLetterDetails: object(
    {
      ...letter,
      payload: anything,
      history: { type: "array", items: object({ attempt: number, at: number, ms: { type: "number" }, code: text, message: text }) },
    },
    letterOptional,
  ),
  Retried: object({ id: text, key: text, executionId: text, status: { const: "retried" } }, ["key", "executionId"]),
  Reinjected: object({ id: text, key: text, executionId: text, status: { const: "reinjected" } }, ["key", "executionId"]),
  Health: object({ status: text }),
};
