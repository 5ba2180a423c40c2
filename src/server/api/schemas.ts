import { effectClasses, states } from "../../core/ledger/record.js";
import { runStatuses } from "../../core/runs/run.js";

/** JSON Schemas of the answers. Members without a value are absent. */
const text = { type: "string" } as const;
const number = { type: "integer" } as const;
const flag = { type: "boolean" } as const;
const instant = { type: "string", format: "date-time" } as const;
const listOf = (name: string) => ({ type: "array", items: { $ref: `#/components/schemas/${name}` } }) as const;
const object = (properties: Readonly<Record<string, unknown>>, optional: Readonly<Record<string, unknown>> = {}) => ({
  type: "object",
  properties: { ...properties, ...optional },
  required: Object.keys(properties),
  additionalProperties: false,
});
const hidden = { values: { const: "hidden" } };
const keyId = { scope: text, key: text };
const error = object({ name: text }, { code: { type: ["string", "number"] }, message: text, ...hidden });

const keySummary = {
  ...keyId,
  effectKey: text,
  state: { enum: states },
  lapsed: flag,
  effect: { enum: effectClasses },
  attempt: number,
  owner: text,
  createdAt: instant,
  startedAt: instant,
  leaseUntil: instant,
};
const keySummaryMore = { fingerprint: text, settledAt: instant, expiresAt: instant, goneAt: instant };
const attempt = object({ attempt: number, owner: text, startedAt: instant, verdict: text }, { endedAt: instant, note: text });
const refusal = object({ answer: text, attempt: number, at: instant, owner: text });

const run = {
  id: text,
  workflow: text,
  status: { enum: runStatuses },
  createdAt: instant,
  unsettled: number,
  needsPerson: flag,
  scope: text,
  attributes: { type: "object" },
};
const runMore = {
  trouble: text,
  startedAt: instant,
  completedAt: instant,
  owner: text,
  parentId: text,
  error,
  ...hidden,
};
const items = (item: object) => object({ items: { type: "array", items: item } });
const done = { actionId: text, repeated: flag, dryRun: flag };
const action = { runId: text, ...done };

const letter = {
  id: text,
  flow: text,
  queue: text,
  edge: text,
  attempts: number,
  deadAt: instant,
  error: object({ code: text }, { message: text, ...hidden }),
};
const letterMore = { executionId: text, key: text, expiresAt: instant };
const flowState = { enum: ["active", "paused", "archived"] };
const execution = {
  id: text,
  flow: text,
  status: { enum: ["running", "completed", "dead"] },
  entry: text,
  open: number,
  duplicates: number,
  dead: number,
  createdAt: instant,
  scope: text,
  attributes: { type: "object" },
};
const executionMore = { key: text, endedAt: instant };

export const schemas = {
  Problem: {
    type: "object",
    properties: { type: text, code: text, title: text, status: number, detail: text },
    required: ["type", "code", "title", "status"],
    description: "RFC 9457. `code` and `type` are stable. Some problems have more members, such as retryAfterMs",
  },
  Key: object(keySummary, keySummaryMore),
  KeyList: object({ items: listOf("Key") }, { cursor: text }),
  KeyDetails: object(
    { ...keySummary, kept: flag, attempts: { type: "array", items: attempt }, refusals: { type: "array", items: refusal } },
    { ...keySummaryMore, value: {}, error, ...hidden },
  ),
  KeyAction: object({ ...keyId, attempt: number, state: { enum: states }, actionId: text, repeated: flag, dryRun: flag }),
  Begun: {
    oneOf: [
      object({
        status: { const: "started" },
        ...keyId,
        owner: text,
        attempt: number,
        effect: { enum: effectClasses },
        effectKey: text,
        leaseMs: number,
        startedAt: instant,
        leaseUntil: instant,
      }),
      object(
        { status: { const: "replayed" }, ...keyId, state: { enum: ["completed", "failed"] }, attempt: number, effectKey: text, kept: flag },
        { value: {}, error, ...hidden },
      ),
    ],
  },
  Run: object(run, runMore),
  RunList: object({ items: listOf("Run") }, { cursor: text }),
  RunDetails: object(run, { ...runMore, deadlineAt: instant, args: {}, result: {} }),
  JournalList: items(
    object({ seq: number, index: number, type: text, id: text, at: instant }, { stepId: text, attempt: number, detail: {}, ...hidden }),
  ),
  AttemptList: items(object({ attempt: number, startedAt: instant, verdict: text }, { endedAt: instant, how: text })),
  RunCounts: { type: "object", additionalProperties: object({ count: number, capped: flag }) },
  FoundRuns: object({ items: listOf("Run"), isComplete: flag, scanned: number }, { cursor: text }),
  HookList: object(
    {
      items: { type: "array", items: object({ token: text, runId: text, hookId: text, createdAt: instant }, { metadata: {}, ...hidden }) },
    },
    { cursor: text },
  ),
  WorkerList: items(
    object(
      {
        ...{ id: text, workflows: { type: "array", items: text }, startedAt: instant, seenAt: instant, live: flag, hasMoreRuns: flag },
        runs: { type: "array", items: object({ id: text, workflow: text }) },
      },
      { version: text },
    ),
  ),
  RunsWithoutWorker: object(
    {
      items: {
        type: "array",
        items: object({ id: text, workflow: text, status: { enum: runStatuses }, createdAt: instant, reason: text }, { parentId: text }),
      },
    },
    { cursor: text },
  ),
  LogList: items(
    object({ no: number, actionId: text, at: instant, actor: text, action: text, runId: text }, { reason: text, answer: {}, ...hidden }),
  ),
  LetterList: object({ items: listOf("Letter") }, { next: text }),
  Letter: object(letter, letterMore),
  LetterDetails: object(
    {
      ...letter,
      history: {
        type: "array",
        items: object({ attempt: number, at: number, ms: { type: "number" }, code: text }, { message: text, ...hidden }),
      },
    },
    { ...letterMore, payload: {}, ...hidden },
  ),
  LetterAction: object({ id: text, status: { enum: ["retried", "discarded"] }, ...done }),
  FlowList: items(
    object({ id: text, state: flowState, title: text, version: text, entries: { type: "array", items: text } }, { summary: text }),
  ),
  FlowState: object({ id: text, state: flowState, ...done }),
  Triggered: object({ status: { enum: ["started", "duplicate", "filtered"] } }, { executionId: text }),
  Execution: object(execution, executionMore),
  ExecutionList: object({ items: listOf("Execution") }, { next: text }),
  ExecutionDetails: object(
    { ...execution, notes: { type: "array" }, packets: { type: "array" } },
    { ...executionMore, input: {}, outputs: { type: "array" }, ...hidden },
  ),
  HistoryList: object(
    {
      items: {
        type: "array",
        items: object(
          { verdict: text, at: instant, packetId: text, edge: text, sent: { type: "array" }, joined: { type: "array" } },
          {
            ...{ node: text, attempt: number, startedAt: instant, ms: { type: "number" }, code: text, about: text },
            ...{ message: text, recorded: {}, ...hidden },
          },
        ),
      },
    },
    { cursor: text },
  ),
  Capabilities: object({
    store: text,
    capabilities: { type: "object" },
    flows: flag,
    readOnly: flag,
    you: object({ actor: text, roles: { type: "array", items: text }, scopes: {} }),
  }),
  Started: object({ runId: text, mismatch: flag }),
  RunAction: { ...object(action), additionalProperties: true },
  Renewed: object({ ...keyId, attempt: number, leaseMs: number, leaseUntil: instant }),
  Settled: object({ ...keyId, attempt: number, state: { enum: ["completed", "failed", "free", "unknown"] }, kept: flag }),
};

export type SchemaName = keyof typeof schemas;
