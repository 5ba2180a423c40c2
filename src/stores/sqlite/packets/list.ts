import type { DeadLetterQuery, ExecutionQuery, QueueCount } from "../../../core/packets/operation.js";
import type { ExecutionNote, ExecutionRecord, PacketRecord } from "../../../core/packets/packet.js";
import type { Prepared } from "../connection/prepared.js";
import type { SqliteValue } from "../driver.js";
import { text } from "../runs/row.js";
import { readBundled } from "./bundles/file.js";
import { selectedExecution, toExecution } from "./executions.js";
import type { QueueNumbers } from "./queues.js";
import { selectedPacket, toPacketRow } from "./row.js";

const selectNotes = "SELECT at, kind, queue, packet, about FROM onceflow_notes WHERE execution = ? ORDER BY no LIMIT ?";
const selectStaying = `SELECT ${selectedPacket} FROM onceflow_packets WHERE execution = ? AND state IN ('part', 'kept', 'dead') LIMIT ?`;
const selectUnderWay = `SELECT ${selectedPacket} FROM onceflow_packets WHERE execution = ? AND state IN ('due', 'held') LIMIT ?`;
const selectOpen = "SELECT open FROM onceflow_executions WHERE no = ?";
const selectCounts = `SELECT queue AS no, sum(owner IS NULL AND state = 'due') AS due, sum(state = 'held') AS held,
    sum(state = 'part') AS parts, sum(owner IS NOT NULL) AS owned, sum(state = 'dead') AS dead
  FROM onceflow_packets GROUP BY queue`;

/** Newest first: the index of dead letters has this order. */
export function listDeadLetters(sql: Prepared, queues: QueueNumbers, query: DeadLetterQuery): PacketRecord[] {
  const { flow, name, before, limit } = query;
  const where = ["dead_at IS NOT NULL"];
  const values: SqliteValue[] = [];
  if (before !== undefined) {
    where.push("(dead_at, no) < (?, ?)");
    values.push(before.at, before.no);
  }
  if (flow !== undefined) {
    where.push("queue IN (SELECT q.no FROM onceflow_queues q WHERE q.flow = ?)");
    values.push(text(flow));
  }
  if (name !== undefined) {
    where.push("dead_name = ?");
    values.push(text(name));
  }
  const select = `SELECT ${selectedPacket} FROM onceflow_packets WHERE ${where.join(" AND ")} ORDER BY dead_at DESC, no DESC LIMIT ?`;
  return toRecords(queues, sql(select).all(...values, limit));
}

/** Newest first. Running and dead executions are few, and have their own indexes. */
export function listExecutions(sql: Prepared, query: ExecutionQuery): ExecutionRecord[] {
  if (query.attribute !== undefined) return listByAttribute(sql, query, query.attribute);
  const { flow, status, scope, before, limit } = query;
  const where = [status === undefined ? "true" : statusSql[status]];
  const values: SqliteValue[] = [];
  if (before !== undefined) {
    where.push("(created_at, no) < (?, ?)");
    values.push(before.at, before.no);
  }
  if (flow !== undefined) {
    where.push("flow = ?");
    values.push(text(flow));
  }
  if (scope !== undefined) {
    where.push(scope === "" ? "scope IS NULL" : "scope = ?");
    if (scope !== "") values.push(text(scope));
  }
  const select = `SELECT ${selectedExecution} FROM onceflow_executions WHERE ${where.join(" AND ")}
    ORDER BY created_at DESC, no DESC LIMIT ?`;
  return sql(select)
    .all(...values, limit)
    .map(toExecution);
}

/** The index of attributes has the order of the list. */
function listByAttribute(
  sql: Prepared,
  { flow, status, scope, before, limit }: ExecutionQuery,
  attribute: NonNullable<ExecutionQuery["attribute"]>,
): ExecutionRecord[] {
  const has = ["name = ?", "value = ?"];
  const values: SqliteValue[] = [text(attribute.name), text(attribute.text)];
  if (scope !== undefined) {
    has.push(scope === "" ? "scope IS NULL" : "scope = ?");
    if (scope !== "") values.push(text(scope));
  }
  const where = [status === undefined ? "true" : statusSql[status]];
  if (before !== undefined) {
    where.push("(found_at, found_no) < (?, ?)");
    values.push(before.at, before.no);
  }
  if (flow !== undefined) {
    where.push("flow = ?");
    values.push(text(flow));
  }
  const select = `SELECT ${selectedExecution} FROM (
      SELECT created_at AS found_at, execution AS found_no FROM onceflow_execution_attributes WHERE ${has.join(" AND ")}
    ) CROSS JOIN onceflow_executions ON no = found_no
    WHERE ${where.join(" AND ")} ORDER BY found_at DESC, found_no DESC LIMIT ?`;
  return sql(select)
    .all(...values, limit)
    .map(toExecution);
}

const statusSql = {
  running: "ended_at IS NULL",
  completed: "ended_at IS NOT NULL AND dead = 0",
  dead: "ended_at IS NOT NULL AND dead > 0",
};

export function listNotes(sql: Prepared, execution: number, limit: number): ExecutionNote[] {
  const rows = sql(selectNotes).all(execution, limit) as ExecutionNote[];
  return rows.map(({ at, kind, queue, packet, about }) => ({ at, kind, queue, packet, about }));
}

/** Open packets have no index by execution, because every hop would have to maintain it: they are read only if the execution has some. */
export function listPacketsOf(sql: Prepared, queues: QueueNumbers, execution: number, limit: number): PacketRecord[] {
  const staying = toRecords(queues, sql(selectStaying).all(execution, limit));
  const { open } = (sql(selectOpen).get(execution) as { open: number } | undefined) ?? { open: limit };
  const wanted = Math.min(limit - staying.length, open);
  if (wanted <= 0) return staying;
  const bundled: PacketRecord[] = readBundled(sql, queues).filter((row) => row.execution === execution);
  const rows = bundled.length < wanted ? toRecords(queues, sql(selectUnderWay).all(execution, wanted - bundled.length)) : [];
  return [...staying, ...[...bundled, ...rows].sort((a, b) => a.no - b.no).slice(0, wanted)];
}

export function countPackets(sql: Prepared, queues: QueueNumbers): QueueCount[] {
  const counts = new Map((sql(selectCounts).all() as Counted[]).map(({ no, ...counted }) => [no, counted]));
  for (const row of readBundled(sql, queues)) {
    const no = queues.find(row) as number;
    const counted = counts.get(no) ?? { due: 0, held: 0, parts: 0, owned: 0, dead: 0 };
    counts.set(no, { ...counted, owned: counted.owned + 1 });
  }
  return [...counts].sort(([a], [b]) => a - b).map(([no, counted]) => ({ ...queues.name(no), ...counted }));
}

type Counted = { readonly no: number } & Omit<QueueCount, "flow" | "queue">;

function toRecords(queues: QueueNumbers, rows: readonly unknown[]): PacketRecord[] {
  return rows.map((row) => toPacketRow(row, queues.name((row as { queue: number }).queue)));
}
