import type { FlowState } from "../../../../core/packets/packet.js";
import type { PacketRow } from "../../../../core/packets/rules/table.js";
import { reachIn } from "../../../shared/census-book.js";
import type { Loaded, Reaching } from "../../../shared/loaded-packet-table.js";
import type { Wishes } from "../../../shared/packet-wishes.js";
import { serverNow } from "../../ledger/read.js";
import { type RecordRow, toRecord } from "../../ledger/row.js";
import { arrayLiteral } from "../../parameters/columns.js";
import { ask, type PacketConnection } from "../ask.js";
import { type ExecutionJson, type PacketJson, toExecution, toPacket, withoutPayload } from "../row.js";
import { portValues } from "./discover.js";
import { keyArrays, list } from "./lock.js";

interface Answer {
  readonly now: number;
  readonly packets: readonly PacketJson[] | null;
  readonly joined: readonly PacketJson[] | null;
  readonly others: readonly PacketJson[] | null;
  readonly executions: readonly (ExecutionJson & { readonly whole: boolean })[] | null;
  readonly reaching: readonly (Omit<Reaching, "reach"> & { readonly reach: string })[] | null;
  readonly records: readonly RecordRow[] | null;
  readonly flows: readonly { readonly flow: string; readonly state: FlowState }[] | null;
  readonly workers: readonly { readonly no: number; readonly lease_until: number }[] | null;
}

/**
 * Reads, for a lane: its first packets, because only the head can be removed, and its last position. For an execution that could end with
 * the packets at hand, or does not exist yet, or whose joins may be decided: all its parts, and a census. Payloads are read only where they are needed.
 */
const readStatement = {
  name: "read",
  text: `WITH ex AS MATERIALIZED (
  SELECT e.*, e.open <= $14::int OR e.no = ANY ($12::bigint[]) AS whole FROM $schema.executions e WHERE e.no = ANY ($2::bigint[])
), lanes AS MATERIALIZED (SELECT * FROM unnest($5::text[], $6::text[], $7::text[]) AS a(flow, queue, lane)),
others AS (
  SELECT x.* FROM unnest($3::text[], $4::text[]) AS a(scope, key), LATERAL (
    SELECT ${withoutPayload.join(", ")} FROM $schema.packets p WHERE p.hold = 'key' AND p.scope = a.scope AND p.key = a.key) x
  UNION ALL
  SELECT x.* FROM lanes a, LATERAL (
    SELECT ${withoutPayload.join(", ")} FROM $schema.packets p
    WHERE p.flow = a.flow AND p.queue = a.queue AND p.lane = a.lane AND p.place IS NOT NULL ORDER BY p.place LIMIT 3) x
  UNION ALL
  SELECT x.* FROM lanes a, LATERAL (
    SELECT ${withoutPayload.join(", ")} FROM $schema.packets p
    WHERE p.flow = a.flow AND p.queue = a.queue AND p.lane = a.lane AND p.place IS NOT NULL ORDER BY p.place DESC LIMIT 1) x
  UNION ALL
  SELECT x.* FROM unnest($2::bigint[]) AS a(no) LEFT JOIN ex e ON e.no = a.no, LATERAL (
    SELECT ${withoutPayload.join(", ")} FROM $schema.packets p WHERE p.state = 'part' AND p.execution = a.no) x WHERE e.no IS NULL OR e.whole
)
SELECT json_build_object(
  'now', ${serverNow},
  'packets', (SELECT json_agg(p) FROM $schema.packets p WHERE p.no = ANY ($1::bigint[])),
  'joined', (SELECT json_agg(x.p) FROM unnest($8::bigint[], $9::text[], $10::text[], $11::int[]) AS a(execution, node, port, count), LATERAL (
    SELECT p FROM $schema.packets p WHERE p.state = 'part' AND p.execution = a.execution AND p.node = a.node AND p.port = a.port
    ORDER BY p.created_at, p.no LIMIT a.count) x),
  'others', (SELECT json_agg(o) FROM others o),
  'executions', (SELECT json_agg(e) FROM ex e),
  'reaching', (SELECT json_agg(c) FROM (
    SELECT p.execution, p.state, p.reach, count(*) AS count FROM ex e JOIN $schema.packets p ON p.execution = e.no
    WHERE e.whole AND p.reach IS NOT NULL AND p.state <> 'kept' GROUP BY p.execution, p.state, p.reach) c),
  'records', (SELECT json_agg(x.r) FROM unnest($3::text[], $4::text[]) AS a(scope, key), LATERAL (
    SELECT r FROM $schema.records r WHERE r.scope = a.scope AND r.key = a.key LIMIT 1) x),
  'flows', (SELECT json_agg(f) FROM $schema.flows f WHERE f.flow = ANY ($13::text[])),
  'workers', (SELECT json_agg(w) FROM $schema.workers w WHERE w.no = ANY ($15::bigint[]))
)::text AS answer`,
};

export async function read(connection: PacketConnection, wishes: Wishes): Promise<Loaded> {
  const lanes = [...wishes.lanes.values()];
  const answer = await ask<Answer>(connection, readStatement, [
    list(wishes.packets),
    list(wishes.executions),
    ...keyArrays([...wishes.keys.values()]),
    ...(["flow", "queue", "lane"] as const).map((name) => arrayLiteral(lanes.map((lane) => lane[name]))),
    ...portValues(wishes.ports.values()),
    list(wishes.ends),
    arrayLiteral([...wishes.flows]),
    wishes.packets.size,
    list(wishes.workers),
  ]);
  const packets = new Map<number, PacketRow>();
  for (const json of [...(answer.others ?? []), ...(answer.joined ?? []), ...(answer.packets ?? [])]) packets.set(json.no, toPacket(json));
  const executions = answer.executions ?? [];
  return {
    now: answer.now,
    packets: [...packets.values()],
    executions: executions.map(toExecution),
    whole: new Set(executions.filter(({ whole }) => whole).map(({ no }) => no)),
    reaching: (answer.reaching ?? []).map((group) => ({ ...group, reach: reachIn(group.reach) })),
    records: (answer.records ?? []).map(toRecord),
    flows: new Map((answer.flows ?? []).map(({ flow, state }) => [flow, state])),
    workers: new Map((answer.workers ?? []).map(({ no, lease_until: until }) => [no, until])),
  };
}
