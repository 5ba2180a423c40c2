import type { DeadLetterQuery, ExecutionQuery, QueueCount } from "../../../core/packets/operation.js";
import type { ExecutionNote, ExecutionRecord, FlowState, PacketRecord } from "../../../core/packets/packet.js";
import { ask, type PacketConnection } from "./ask.js";
import { type ExecutionJson, type PacketJson, toExecution, toPacket } from "./row.js";

/** Dead letters or executions, newest first: reads the newest of each flow by an index, and then the newest of those. */
function newestFirst(table: "packets" | "executions", at: string, where: string): string {
  const next = (after: string) => `SELECT t.flow FROM $schema.${table} t WHERE ${where}${after} ORDER BY t.flow LIMIT 1`;
  return `WITH RECURSIVE named AS (
    (${next("")}) UNION ALL SELECT (${next(" AND t.flow > n.flow")}) FROM named n WHERE n.flow IS NOT NULL
  ), chosen AS (SELECT $1::text AS flow WHERE $1::text IS NOT NULL UNION ALL SELECT flow FROM named WHERE $1::text IS NULL AND flow IS NOT NULL)
  SELECT coalesce(json_agg(y), '[]')::text AS answer FROM (SELECT x.* FROM chosen c, LATERAL (
    SELECT t.* FROM $schema.${table} t WHERE ${where} AND t.flow = c.flow
      AND (t.${at}, t.no) < (coalesce($3::bigint, 9223372036854775807), coalesce($4::bigint, 9223372036854775807)) AND $filter
    ORDER BY t.${at} DESC, t.no DESC LIMIT $5::int) x ORDER BY x.${at} DESC, x.no DESC LIMIT $5::int) y`;
}

const status = "CASE WHEN t.open > 0 THEN 'running' WHEN t.dead > 0 THEN 'dead' ELSE 'completed' END";

const statements = {
  dead: newestFirst("packets", "dead_at", "t.state = 'dead'").replaceAll("$filter", "($2::text IS NULL OR t.dead_name = $2::text)"),
  executions: newestFirst("executions", "created_at", "true").replaceAll("$filter", `($2::text IS NULL OR ${status} = $2::text)`),
  packet: "SELECT coalesce(json_agg(p), '[]')::text AS answer FROM $schema.packets p WHERE p.no = $1",
  execution: "SELECT coalesce(json_agg(e), '[]')::text AS answer FROM $schema.executions e WHERE e.no = $1",
  notes: `SELECT coalesce(json_agg(json_build_object('at', n.at, 'kind', n.kind, 'queue', n.queue, 'packet', n.packet, 'about', n.about)
    ORDER BY n.id), '[]')::text AS answer FROM (SELECT * FROM $schema.notes WHERE execution = $1 ORDER BY id LIMIT $2::int) n`,
  // Open packets have no index by execution: they are searched only while the execution has some, and only until all are found.
  of: `WITH e AS (SELECT open, dead FROM $schema.executions WHERE no = $1)
    SELECT coalesce(json_agg(p), '[]')::text AS answer FROM (SELECT * FROM (
      SELECT * FROM $schema.packets WHERE execution = $1 AND state = 'part'
      UNION ALL SELECT * FROM $schema.packets WHERE execution = $1 AND state = 'kept'
      UNION ALL SELECT * FROM $schema.packets WHERE execution = $1 AND state = 'dead' AND coalesce((SELECT dead FROM e), 1) > 0
      UNION ALL (SELECT * FROM $schema.packets WHERE execution = $1 AND state IN ('due', 'held')
        AND coalesce((SELECT open FROM e), 1) > 0 LIMIT (SELECT open FROM e))
    ) p ORDER BY created_at, no LIMIT $2::int) p`,
  counts: `SELECT coalesce(json_agg(c), '[]')::text AS answer FROM (
    SELECT flow, queue, count(*) FILTER (WHERE owner IS NOT NULL) AS owned,
      count(*) FILTER (WHERE owner IS NULL AND state = 'due') AS due, count(*) FILTER (WHERE owner IS NULL AND state = 'held') AS held,
      count(*) FILTER (WHERE owner IS NULL AND state = 'part') AS parts, count(*) FILTER (WHERE owner IS NULL AND state = 'dead') AS dead
    FROM $schema.packets GROUP BY flow, queue ORDER BY flow, queue) c`,
  flow: "SELECT to_json(f.state)::text AS answer FROM $schema.flows f WHERE f.flow = $1",
};

function asked<T>(connection: PacketConnection, name: keyof typeof statements, values: readonly unknown[]): Promise<T> {
  return ask<T>(connection, { name, text: statements[name] }, values);
}

export async function deadLetters(connection: PacketConnection, { flow, name, before, limit }: DeadLetterQuery): Promise<PacketRecord[]> {
  const values = [flow ?? null, name ?? null, before?.at ?? null, before?.no ?? null, limit];
  return (await asked<PacketJson[]>(connection, "dead", values)).map(toPacket);
}

export async function listExecutions(connection: PacketConnection, query: ExecutionQuery): Promise<ExecutionRecord[]> {
  if (query.scope !== undefined || query.attribute !== undefined) return await listFound(connection, query);
  const { flow, status: wanted, before, limit } = query;
  const values = [flow ?? null, wanted ?? null, before?.at ?? null, before?.no ?? null, limit];
  return (await asked<ExecutionJson[]>(connection, "executions", values)).map(toExecution);
}

/** By scope, by attribute, or by both: each is an index in the order of the list. Conditions that are not asked for are not in the statement. */
async function listFound(
  connection: PacketConnection,
  { flow, status: wanted, scope, attribute, before, limit }: ExecutionQuery,
): Promise<ExecutionRecord[]> {
  const [from, at, no, of] =
    attribute === undefined
      ? ["$schema.executions t", "t.created_at", "t.no", "t.scope"]
      : ["$schema.execution_attributes a JOIN $schema.executions t ON t.no = a.execution", "a.created_at", "a.execution", "a.scope"];
  const values: unknown[] = [limit];
  const next = (value: unknown, type: string) => `$${values.push(value)}::${type}`;
  const where = [
    ...(attribute === undefined ? [] : [`a.name = ${next(attribute.name, "text")} AND a.value = ${next(attribute.text, "text")}`]),
    ...(scope === undefined ? [] : [scope === "" ? `${of} IS NULL` : `${of} = ${next(scope, "text")}`]),
    ...(flow === undefined ? [] : [`t.flow = ${next(flow, "text")}`]),
    ...(wanted === undefined ? [] : [`${status} = ${next(wanted, "text")}`]),
    ...(before === undefined ? [] : [`(${at}, ${no}) < (${next(before.at, "bigint")}, ${next(before.no, "bigint")})`]),
  ];
  const text = `SELECT coalesce(json_agg(x), '[]')::text AS answer FROM (
    SELECT t.* FROM ${from} WHERE ${where.join(" AND ")} ORDER BY ${at} DESC, ${no} DESC LIMIT $1::int) x`;
  return (await ask<ExecutionJson[]>(connection, { name: "found", text }, values)).map(toExecution);
}

export async function readPacket(connection: PacketConnection, no: number): Promise<PacketRecord | undefined> {
  return (await asked<PacketJson[]>(connection, "packet", [no])).map(toPacket)[0];
}

export async function readExecution(connection: PacketConnection, no: number): Promise<ExecutionRecord | undefined> {
  return (await asked<ExecutionJson[]>(connection, "execution", [no])).map(toExecution)[0];
}

export function readNotes(connection: PacketConnection, execution: number, limit: number): Promise<ExecutionNote[]> {
  return asked<ExecutionNote[]>(connection, "notes", [execution, limit]);
}

export async function packetsOf(connection: PacketConnection, execution: number, limit: number): Promise<PacketRecord[]> {
  return (await asked<PacketJson[]>(connection, "of", [execution, limit])).map(toPacket);
}

export function readCounts(connection: PacketConnection): Promise<QueueCount[]> {
  return asked<QueueCount[]>(connection, "counts", []);
}

export async function readFlowState(connection: PacketConnection, flow: string): Promise<FlowState> {
  const state = await asked<FlowState | Record<string, never>>(connection, "flow", [flow]);
  return typeof state === "string" ? state : "active";
}
