import { serverNow } from "./read.js";

/**
 * The two things that nearly every flush is made of, as cheap as they can be: begins of keys that do not exist yet,
 * and settles by the owner of a running attempt. Begins also read the record that exists instead, so that replays and
 * refusals are answered by the same trip. What this statement does not confirm goes through the full one.
 *
 * The text depends on what is in the flush and whether it is one or many: one is bound as plain values, many as
 * arrays; each text is prepared once per connection.
 */
export interface QuickShape {
  readonly begins: "none" | "one" | "many";
  readonly settles: "none" | "one" | "many";
}

const beginColumns = [
  ["scope", "text"],
  ["key", "text"],
  ["owner", "text"],
  ["fingerprint", "text"],
  ["effect", "$schema.effect"],
  ["lease_ms", "bigint"],
  ["retention_ms", "bigint"],
  ["horizon_ms", "bigint"],
  ["reconcile_after_ms", "bigint"],
] as const;

const settleColumns = [
  ["scope", "text"],
  ["key", "text"],
  ["owner", "text"],
  ["attempt", "bigint"],
  ["to_state", "text"],
  ["outcome", "text"],
  ["forget", "boolean"],
  ["verdict", "text"],
  ["note", "text"],
] as const;

export function quickStatement(schema: string, { begins, settles }: QuickShape): string {
  const parts: string[] = [];
  const answers: string[] = [];
  if (begins !== "none") {
    parts.push(beginPart(source(beginColumns, begins, 0)));
    answers.push(
      "SELECT 'begin' AS verb, a.ord, a.now, f.key IS NOT NULL AS done, row_to_json(a.r) AS record FROM begins a LEFT JOIN fresh f ON f.scope = a.scope AND f.key = a.key",
    );
  }
  if (settles !== "none") {
    parts.push(settlePart(source(settleColumns, settles, begins === "none" ? 0 : beginColumns.length)));
    answers.push("SELECT 'settle' AS verb, ord, now, true AS done, NULL::json AS record FROM settled");
  }
  return `WITH ${parts.join(", ")} ${answers.join(" UNION ALL ")}`.replaceAll("$schema", schema);
}

type Columns = readonly (readonly [name: string, type: string])[];

/** The operations as rows: `ord` counts from 1. */
function source(columns: Columns, count: "one" | "many", bound: number): string {
  const names = `(${columns.map(([name]) => name).join(", ")}, ord)`;
  const values = columns.map(([, type], i) => `$${bound + i + 1}::${type}${count === "many" ? "[]" : ""}`).join(", ");
  return count === "many" ? `unnest(${values}) WITH ORDINALITY AS a${names}` : `(VALUES (${values}, 1)) AS a${names}`;
}

function beginPart(from: string): string {
  return `begins AS MATERIALIZED (
  SELECT a.*, ${serverNow} AS now, x.r FROM ${from}
  LEFT JOIN LATERAL (SELECT r FROM $schema.records r WHERE r.scope = a.scope AND r.key = a.key LIMIT 1) x ON true
), fresh AS (
  INSERT INTO $schema.records (scope, key, state, fingerprint, effect, attempt, owner, created_at, started_at, lease_until,
    retention_ms, horizon_ms, reconcile_after_ms, verdict, rev)
  SELECT scope, key, 'running', fingerprint, effect, 1, owner, now, now, now + lease_ms,
    retention_ms, horizon_ms, reconcile_after_ms, 'running', 1
  FROM begins WHERE r IS NULL ORDER BY ord
  ON CONFLICT DO NOTHING RETURNING scope, key
)`;
}

/**
 * The comparison of the state is written so that no index on it can be chosen: through the partial index on open
 * records this was five times slower, and slower with every settle.
 */
function settlePart(from: string): string {
  return `settles AS MATERIALIZED (SELECT a.*, ${serverNow} AS now FROM ${from}), settled AS (
  UPDATE $schema.records r SET state = a.to_state, fingerprint = CASE WHEN a.forget THEN NULL ELSE r.fingerprint END,
    settled_at = a.now, outcome = a.outcome,
    expires_at = CASE WHEN a.to_state <> 'unknown' THEN a.now + r.retention_ms END,
    gone_at = CASE WHEN a.to_state <> 'unknown' THEN a.now + r.retention_ms + r.horizon_ms END,
    verdict = a.verdict, note = a.note, rev = r.rev + 1
  FROM settles a
  WHERE r.scope = a.scope AND r.key = a.key AND r.owner = a.owner AND r.attempt = a.attempt AND (r.state || '') = 'running'
  RETURNING a.ord, a.now
)`;
}
