import { type DeliveryEntry, type DeliveryQuery, type EntryToWrite, fullEntry } from "../../../core/packets/delivery-entry.js";
import { linksIn, linksText } from "../../shared/delivery-links.js";
import type { Prepared } from "../connection/prepared.js";
import type { SqliteValue } from "../driver.js";
import { text } from "../runs/row.js";

const selected = `execution, packet, queue, node, attempt, verdict, at, started_at AS "startedAt", ms, code, links, details`;
const insert = `INSERT INTO onceflow_deliveries (execution, packet, queue, node, attempt, verdict, at, started_at, ms, code, links, details)
  SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? WHERE EXISTS (SELECT 1 FROM onceflow_executions WHERE no = ?)`;
const countEntries = "SELECT count(*) AS count FROM onceflow_deliveries WHERE execution = ?";

type Row = Omit<DeliveryEntry, "sent" | "joined"> & { readonly links: string | null };

export function insertEntry(sql: Prepared, entry: EntryToWrite): void {
  const { count } = sql(countEntries).get(entry.execution) as { count: number };
  if (count > entry.entriesMax) return;
  const written = count < entry.entriesMax ? entry : fullEntry(entry);
  const { execution, packet, queue, node, attempt, verdict, at, startedAt, ms, code, details } = written;
  const values = [
    execution,
    packet,
    text(queue),
    text(node),
    attempt,
    verdict,
    at,
    startedAt,
    ms,
    text(code),
    linksText(written),
    text(details),
  ];
  sql(insert).run(...values, execution);
}

export function listDeliveries(sql: Prepared, { execution, packets, after, limit }: DeliveryQuery): DeliveryEntry[] {
  const where = ["true"];
  const values: SqliteValue[] = [];
  if (execution !== undefined) {
    where.push("execution = ?");
    values.push(execution);
  }
  if (packets !== undefined) {
    where.push("packet IN (SELECT value FROM json_each(?))");
    values.push(JSON.stringify(packets));
  }
  if (after !== undefined) {
    where.push("(at, packet, attempt) > (?, ?, ?)");
    values.push(after.at, after.packet, after.attempt);
  }
  const select = `SELECT ${selected} FROM onceflow_deliveries WHERE ${where.join(" AND ")} ORDER BY at, packet, attempt LIMIT ?`;
  return sql(select)
    .all(...values, limit)
    .map(toEntry);
}

function toEntry(found: unknown): DeliveryEntry {
  const { execution, packet, queue, node, attempt, verdict, at, startedAt, ms, code, links, details } = found as Row;
  return { execution, packet, queue, node, attempt, verdict, at, startedAt, ms, code, ...linksIn(links), details };
}
