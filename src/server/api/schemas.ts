import { effectClasses, states } from "../../core/ledger/record.js";

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
  ownerName: text,
  createdAt: instant,
  startedAt: instant,
  leaseUntil: instant,
};
const keySummaryMore = { fingerprint: text, settledAt: instant, expiresAt: instant, goneAt: instant };
const attempt = object({ attempt: number, ownerName: text, startedAt: instant, verdict: text }, { endedAt: instant, note: text });
const refusal = object({ answer: text, attempt: number, at: instant, ownerName: text });

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
  Renewed: object({ ...keyId, attempt: number, leaseMs: number, leaseUntil: instant }),
  Settled: object({ ...keyId, attempt: number, state: { enum: ["completed", "failed", "free", "unknown"] }, kept: flag }),
};

export type SchemaName = keyof typeof schemas;
