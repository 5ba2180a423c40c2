import { type Columns, unnest } from "../parameters/columns.js";
import { serverNow } from "./read.js";

/**
 * The two common operations, as cheap as possible: begins of keys that do not exist yet, and settles by the owner of a
 * running attempt. A begin also reads an existing record, so that replays and refusals are answered in the same round
 * trip.
 *
 * A single operation is passed as plain values, several as one array per column. The result is a count of the operations done, and a
 * row for every existing record: few columns and rows, because each costs time on both sides. If a count is too low, an operation
 * lost a race, and the full statement finds out which.
 */
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
  ["progress", "text"],
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

export function beginOneStatement(schema: string): string {
  const value = (name: string) => bound(beginColumns, name);
  return `WITH seen AS MATERIALIZED (
  SELECT ${serverNow} AS now, (SELECT r FROM $schema.records r WHERE r.scope = $1 AND r.key = $2) AS r
), fresh AS (${insert(value, "FROM seen WHERE r IS NULL")} RETURNING 1)
SELECT now, (SELECT count(*) FROM fresh) AS begun, 1 AS ord, row_to_json(r) AS record FROM seen`.replaceAll("$schema", schema);
}

/** The result is the number of changed rows. */
export function settleOneStatement(schema: string): string {
  const value = (name: string) => bound(settleColumns, name);
  return update(value, `(SELECT ${serverNow} AS now) c`).replaceAll("$schema", schema);
}

/** The first row has the counts; the other rows are existing records of begins. */
export function manyStatement(schema: string, has: { readonly begins: boolean; readonly settles: boolean }): string {
  const column = (name: string) => `a.${name}`;
  const parts = [`clock AS MATERIALIZED (SELECT ${serverNow} AS now)`];
  const counts: string[] = [];
  if (has.begins) {
    parts.push(`begins AS MATERIALIZED (
  SELECT a.*, x.r FROM ${unnest(beginColumns, 0)}
  LEFT JOIN LATERAL (SELECT r FROM $schema.records r WHERE r.scope = a.scope AND r.key = a.key LIMIT 1) x ON true
), fresh AS (${insert(column, "FROM begins a, clock WHERE r IS NULL ORDER BY ord")} RETURNING 1)`);
    counts.push("(SELECT count(*) FROM fresh) AS begun");
  }
  if (has.settles) {
    parts.push(`settles AS MATERIALIZED (SELECT * FROM ${unnest(settleColumns, has.begins ? beginColumns.length : 0)}
), settled AS (${update(column, "settles a, clock")} RETURNING 1)`);
    counts.push("(SELECT count(*) FROM settled) AS settled");
  }
  const existing = `UNION ALL SELECT now, ${counts.map(() => "NULL").join(", ")}, ord, row_to_json(r) FROM begins, clock WHERE NOT (r IS NULL)`;
  return `WITH ${parts.join(", ")} SELECT now, ${counts.join(", ")}, NULL::bigint AS ord, NULL::json AS record FROM clock
${has.begins ? existing : ""}`.replaceAll("$schema", schema);
}

function bound(columns: Columns, name: string): string {
  const i = columns.findIndex(([column]) => column === name);
  return `$${i + 1}::${columns[i]?.[1]}`;
}

function insert(value: (name: string) => string, from: string): string {
  const copied = ["scope", "key", "fingerprint", "effect", "owner", "retention_ms", "horizon_ms", "reconcile_after_ms", "progress"];
  return `INSERT INTO $schema.records (${copied.join(", ")}, state, attempt, created_at, started_at, lease_until, purge_from, verdict, rev)
  SELECT ${copied.map(value).join(", ")}, 'running', 1, now, now, now + ${value("lease_ms")}, now + ${value("retention_ms")}, 'running', 1
  ${from} ON CONFLICT DO NOTHING`;
}

function update(value: (name: string) => string, from: string): string {
  const final = `(${value("to_state")} <> 'unknown')`;
  return `UPDATE $schema.records r SET state = ${value("to_state")}, outcome = ${value("outcome")}, settled_at = now,
    fingerprint = CASE WHEN ${value("forget")} THEN NULL ELSE r.fingerprint END,
    expires_at = CASE WHEN ${final} THEN now + r.retention_ms END,
    gone_at = CASE WHEN ${final} THEN now + r.retention_ms + r.horizon_ms END,
    progress = CASE WHEN NOT ${final} THEN r.progress END, verdict = ${value("verdict")}, note = ${value("note")}, rev = r.rev + 1
  FROM ${from}
  WHERE r.scope = ${value("scope")} AND r.key = ${value("key")} AND r.owner = ${value("owner")} AND r.attempt = ${value("attempt")}
    AND r.state = 'running'`;
}
