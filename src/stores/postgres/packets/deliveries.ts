import type { DeliveryEntry, DeliveryQuery, EntryToWrite } from "../../../core/packets/delivery-entry.js";
import { linksIn, linksText } from "../../shared/delivery-links.js";
import type { Columns, Scalar } from "../parameters/columns.js";
import { ask, type PacketConnection } from "./ask.js";

export const entryColumns: Columns = [
  ["execution", "bigint"],
  ["packet", "bigint"],
  ["attempt", "int"],
  ["queue", "text"],
  ["node", "text"],
  ["verdict", "text"],
  ["at", "bigint"],
  ["started_at", "bigint"],
  ["ms", "bigint"],
  ["code", "text"],
  ["links", "text"],
  ["details", "text"],
  ["entries_max", "int"],
];

export function entryValues(entry: EntryToWrite): Scalar[] {
  const { execution, packet, attempt, queue, node, verdict, at, startedAt, ms, code, details, entriesMax } = entry;
  return [execution, packet, attempt, queue, node, verdict, at, startedAt, ms, code, linksText(entry), details, entriesMax];
}

/**
 * Inserts the rows `a` of `entryColumns`. The entry after the last one for which an execution has room says that its history is full. Two
 * transactions that do not see each other's entries may write one entry more.
 */
export function insertEntries(rows: string): string {
  const unlessFull = (column: string) => `CASE WHEN a.nth > a.entries_max THEN NULL ELSE a.${column} END`;
  const count = "(SELECT count(*) FROM $schema.deliveries d WHERE d.execution = a.execution)";
  return `INSERT INTO $schema.deliveries (execution, packet, attempt, queue, node, verdict, at, started_at, ms, code, links, details)
  SELECT a.execution, a.packet, a.attempt, a.queue, a.node, CASE WHEN a.nth > a.entries_max THEN 'full' ELSE a.verdict END, a.at, a.started_at, a.ms,
    ${["code", "links", "details"].map(unlessFull).join(", ")}
  FROM (SELECT a.*, row_number() OVER (PARTITION BY a.execution ORDER BY a.ord) + ${count} AS nth FROM ${rows}) a
  WHERE a.nth <= a.entries_max + 1 AND EXISTS (SELECT FROM $schema.executions e WHERE e.no = a.execution)
  ON CONFLICT DO NOTHING`;
}

interface EntryJson extends Omit<DeliveryEntry, "startedAt" | "sent" | "joined"> {
  readonly started_at: number;
  readonly links: string | null;
}

export async function listDeliveries(
  connection: PacketConnection,
  { execution, packets, after, limit }: DeliveryQuery,
): Promise<DeliveryEntry[]> {
  // A condition that is not asked for is not in the statement, so that the plan uses the index of the others.
  const where = ["true"];
  const values: unknown[] = [limit];
  const add = (condition: (place: string) => string, ...given: unknown[]) => {
    where.push(condition(given.map((_, i) => `$${values.length + i + 1}::bigint`).join(", ")));
    values.push(...given);
  };
  if (execution !== undefined) add((place) => `d.execution = ${place}`, execution);
  if (packets !== undefined) {
    values.push(`{${packets.join(",")}}`);
    where.push(`d.packet = ANY ($${values.length}::bigint[])`);
  }
  if (after !== undefined) add((places) => `(d.at, d.packet, d.attempt) > (${places})`, after.at, after.packet, after.attempt);
  const text = `SELECT coalesce(json_agg(x), '[]')::text AS answer FROM (SELECT d.* FROM $schema.deliveries d WHERE ${where.join(" AND ")}
    ORDER BY d.at, d.packet, d.attempt LIMIT $1::int) x`;
  return (await ask<EntryJson[]>(connection, { name: "deliveries", text }, values)).map(toEntry);
}

function toEntry({
  execution,
  packet,
  attempt,
  queue,
  node,
  verdict,
  at,
  started_at: startedAt,
  ms,
  code,
  links,
  details,
}: EntryJson): DeliveryEntry {
  return { execution, packet, queue, node, attempt, verdict, at, startedAt, ms, code, ...linksIn(links), details };
}
