import { serverNow } from "../ledger/read.js";
import { onlyRow } from "../parameters/columns.js";
import { putChunks, voidChunks } from "./chunks.js";
import { changeColumns, changedRun, insertRuns, selectedRun, startColumns } from "./row.js";
import { mailStatement } from "./send.js";
import { inSchema, tell } from "./tell.js";

const nowAfterStart = `$${startColumns.length + 1}::bigint`;
const [hookChanges, nowAfterChange] = [`$${changeColumns.length + 1}::int`, `$${changeColumns.length + 2}::bigint`];

const last = "FROM $schema.journal WHERE run = $1::text ORDER BY seq DESC LIMIT 1";

/**
 * The statements of a transaction that writes one operation. Each answers with at most one JSON text: in a user's own
 * transaction they pass through a client of theirs, and how that one reads numbers is not ours to know. One instant,
 * that of the first statement, counts for all of them.
 */
const texts = {
  /**
   * Locks the run, and with it its parent when it is to be told of an end. In one order, which renewals keep too: two
   * that wanted the same two runs the other way round would wait for each other.
   */
  lock: `WITH held AS MATERIALIZED (
      SELECT id, epoch, owner, ended_at FROM $schema.runs
      WHERE id = ANY (ARRAY[$1::text, (SELECT parent FROM $schema.runs WHERE id = $1::text AND $2::boolean)]) ORDER BY id FOR UPDATE)
    SELECT json_build_object('now', ${serverNow}, 'epoch', epoch, 'owned', owner IS NOT NULL, 'ended', ended_at IS NOT NULL)::text AS answer
    FROM held WHERE id = $1::text`,

  create: `WITH clock AS MATERIALIZED (SELECT coalesce(${nowAfterStart}, ${serverNow}) AS now),
    created AS (${insertRuns(`${onlyRow(startColumns, 0)}, clock`)} ON CONFLICT DO NOTHING RETURNING id, owner)
    SELECT json_build_object('now', now, 'created', (SELECT count(*) FROM created),
      'told', (SELECT count(${tell("id")}) FROM created WHERE owner IS NULL))::text AS answer FROM clock`,

  read: `SELECT to_json(r)::text AS answer FROM (SELECT ${selectedRun}, ${serverNow} AS now FROM $schema.runs WHERE id = $1) r`,

  /** The fence: nothing is written when the place is taken, is not the next one, or is behind a later epoch's. */
  write: `WITH written AS (
      INSERT INTO $schema.journal (run, seq, epoch, at, events, closing)
      SELECT $1::text, $2::int, $3::int, $4::bigint, $5::text, nullif($6::boolean, false)
      WHERE coalesce((SELECT seq = $2::int - 1 AND epoch <= $3::int ${last}), $2::int = 1)
      ON CONFLICT DO NOTHING RETURNING 1)
    SELECT json_build_object('written', count(*))::text AS answer FROM written`,

  /** An end without an entry: no entry can follow. None is written when somebody has just appended one. */
  close: `WITH written AS (
      INSERT INTO $schema.journal (run, seq, epoch, at, closing) SELECT $1::text, coalesce((SELECT seq ${last}), 0) + 1, $2::int, $3::bigint, true
      ON CONFLICT DO NOTHING RETURNING 1)
    SELECT json_build_object('written', count(*))::text AS answer FROM written`,

  writer: `SELECT json_build_object('epoch', epoch)::text AS answer FROM $schema.journal
    WHERE run = $1 AND seq = $2 AND events IS NOT NULL`,

  addHook: `INSERT INTO $schema.hooks (run, token, about, metadata, created_at) VALUES ($1, $2, $3, $4, $5::bigint)
    ON CONFLICT (token) DO NOTHING`,

  dropHook: "DELETE FROM $schema.hooks WHERE run = $1 AND token = $2",

  hooks: `SELECT json_build_object('hooks', json_agg(json_build_object('token', token, 'run', run, 'about', about)))::text AS answer
    FROM $schema.hooks WHERE token = ANY ($1::text[])`,

  change: `WITH clock AS MATERIALIZED (SELECT ${nowAfterChange} AS now),
    changed AS (
      UPDATE $schema.runs r SET ${changedRun}, hook_rev = r.hook_rev + ${hookChanges} FROM ${onlyRow(changeColumns, 0)}, clock WHERE r.id = a.id
      RETURNING r.id, r.parent, a.over, a.over OR r.wake_at <= now AS matters),
    dropped AS (DELETE FROM $schema.hooks h USING changed c WHERE c.over AND h.run = c.id)
    SELECT json_build_object('parent', parent, 'told', (SELECT count(${tell("id")}) FROM changed WHERE matters))::text AS answer
    FROM changed`,

  trial: "UPDATE $schema.runs SET deaths = $2::int, crashes = $3::int, alone = $4::boolean WHERE id = $1::text",

  avoid: "UPDATE $schema.runs SET avoid = $2::text[], avoid_until = $3::bigint WHERE id = $1::text",

  /** Kept until its steps are settled; then its retention counts from its end. */
  unsettled: `UPDATE $schema.runs SET unsettled = $2::int, expires_at = CASE WHEN $2::int = 0 THEN ended_at + retention_ms END
    WHERE id = $1::text`,

  /** An entry after the end: the next one, or in the place of the row without events that an end without an entry left. */
  late: `WITH written AS (
      INSERT INTO $schema.journal AS j (run, seq, epoch, at, events, closing)
      SELECT $1::text, $2::int, $3::int, $4::bigint, $5::text, true
      WHERE $2::int = coalesce((SELECT CASE WHEN events IS NULL THEN seq ELSE seq + 1 END ${last}), 1)
      ON CONFLICT (run, seq) DO UPDATE SET epoch = excluded.epoch, at = excluded.at, events = excluded.events WHERE j.events IS NULL
      RETURNING 1)
    SELECT json_build_object('written', count(*))::text AS answer FROM written`,

  events: "SELECT json_build_object('events', events)::text AS answer FROM $schema.journal WHERE run = $1 AND seq = $2",

  mail: mailStatement("run"),

  voidChunks,

  putChunks,
} as const;

export type WriteStatement = keyof typeof texts;
export type WriteStatements = Readonly<Record<WriteStatement, string>>;

export function writeStatements(schema: string): WriteStatements {
  return Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, inSchema(text, schema)])) as WriteStatements;
}
