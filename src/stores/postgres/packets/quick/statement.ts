import { serverNow } from "../../ledger/read.js";
import { type Columns, unnest } from "../../parameters/columns.js";
import { notify } from "../notify.js";

/**
 * The kinds of operations in a flush. Parts of the statement without an operation are left out, because every part of a plan costs
 * time.
 */
export interface QuickParts {
  readonly settles: boolean;
  readonly executions: boolean;
  /** Other workers can claim packets that are sent: notify them. */
  readonly notifies: boolean;
}

export const settleColumns: Columns = [
  ["no", "bigint"],
  ["worker", "bigint"],
  ["attempt", "int"],
  ["execution", "bigint"],
  ["reach", "text"],
];
export const beginColumns: Columns = [
  ["no", "bigint"],
  ["flow", "text"],
  ["entry", "text"],
  ["input", "text"],
  ["retention_ms", "bigint"],
  ["open", "int"],
];
/** `of` is the number of the settle that sends the packet, from 1; null for a send. */
export const sentColumns: Columns = [
  ["no", "bigint"],
  ["flow", "text"],
  ["queue", "text"],
  ["execution", "bigint"],
  ["payload", "text"],
  ["terms", "text"],
  ["delay_ms", "bigint"],
  ["owner", "bigint"],
  ["reach", "text"],
  ["of", "int"],
];

/**
 * The common operations of a flush in one statement over arrays, durable and atomic by itself:
 *
 *   calm   every flow is active and every worker known; else the statement does nothing
 *   gone   packets without key and lane that are done; the open count of their execution does not change, and the one packet that is
 *          sent may fill the same ports of joins, so that no join has to be decided
 *   come   packets without key, lane and join that settles and sends send
 *   begun  executions without a key
 *
 * It touches no row that another transaction could touch, so it takes no locks. It returns the settles that were done, or no row if not
 * `calm`. Operations that were not done get a transaction. A send that is repeated finds its own rows: then the primary key raises an
 * error, and all operations get a transaction.
 */
export function quickStatement({ settles, executions, notifies }: QuickParts): string {
  const withs = [
    `calm AS MATERIALIZED (SELECT ${serverNow} AS now WHERE NOT EXISTS (
  SELECT FROM $schema.flows f WHERE f.flow = ANY ($1::text[]) AND f.state <> 'active')
  AND NOT EXISTS (SELECT FROM unnest($2::bigint[]) AS a(no) WHERE NOT EXISTS (SELECT FROM $schema.workers w WHERE w.no = a.no)))`,
  ];
  let before = 2;
  if (settles) {
    withs.push(`gone AS (
  DELETE FROM $schema.packets p USING calm, ${unnest(settleColumns, before)}
  WHERE p.no = a.no AND p.owner = a.worker AND p.attempt = a.attempt AND p.key IS NULL AND p.lane IS NULL
    AND p.execution IS NOT DISTINCT FROM a.execution AND (p.reach IS NULL OR p.reach = a.reach)
  RETURNING a.ord)`);
    before += settleColumns.length;
  }
  if (executions) {
    withs.push(`begun AS (
  INSERT INTO $schema.executions (no, flow, entry, input, open, duplicates, dead, created_at, outputs, retention_ms)
  SELECT a.no, a.flow, a.entry, a.input, a.open, 0, 0, now, '[]', a.retention_ms FROM calm, ${unnest(beginColumns, before)})`);
    before += beginColumns.length;
  }
  withs.push(`come AS (
  INSERT INTO $schema.packets (no, flow, queue, state, owner, attempt, since, crashes, due_at, execution, payload, created_at, terms, reach)
  SELECT a.no, a.flow, a.queue, 'due', a.owner, CASE WHEN a.owner IS NULL THEN 0 ELSE 1 END, 0, 0, now + a.delay_ms, a.execution, a.payload, now, a.terms, a.reach
  FROM calm, ${unnest(sentColumns, before)}${settles ? " WHERE a.of IS NULL OR a.of IN (SELECT ord FROM gone)" : ""})`);
  const done = settles ? "(SELECT json_agg(ord) FROM gone)" : "NULL";
  return `WITH ${withs.join(",\n")}
SELECT json_build_object('now', now, 'done', ${done}${notifies ? `, 'notified', ${notify}::text` : ""})::text AS answer FROM calm`;
}
