import type { PacketOperation } from "../../../../core/packets/operation.js";
import { type PortWish, Wishes } from "../../../shared/packet-wishes.js";
import { SeenPackets, type SeenPart } from "../../../shared/seen-packets.js";
import { binaryColumns } from "../../parameters/binary-array.js";
import { ask, type PacketConnection } from "../ask.js";
import { type PacketJson, toPacket, withoutPayload } from "../row.js";

interface Seen {
  readonly packets: readonly PacketJson[] | null;
  readonly held: readonly { readonly of: number; readonly packet: PacketJson }[] | null;
  readonly parts: readonly SeenPart[] | null;
}

const discoverStatement = {
  name: "discover",
  text: `WITH mine AS MATERIALIZED (
  SELECT ${withoutPayload.join(", ")} FROM $schema.packets p WHERE p.no = ANY ($1::bigint[])
)
SELECT json_build_object(
  'packets', (SELECT json_agg(m) FROM mine m),
  'held', (SELECT json_agg(json_build_object('of', m.no, 'packet', h)) FROM mine m, LATERAL (
    SELECT ${withoutPayload.join(", ")} FROM $schema.packets p WHERE p.hold = 'key' AND p.scope = m.scope AND p.key = m.key) h),
  'parts', (SELECT json_agg(json_build_object('execution', a.execution, 'node', a.node, 'scope', x.scope, 'key', x.key))
    FROM unnest($2::bigint[], $3::text[], $4::text[], $5::int[]) AS a(execution, node, port, count), LATERAL (
    SELECT p.scope, p.key FROM $schema.packets p
    WHERE p.state = 'part' AND p.execution = a.execution AND p.node = a.node AND p.port = a.port
    ORDER BY p.created_at, p.no LIMIT a.count) x WHERE x.key IS NOT NULL)
)::text AS answer`,
};

const portColumns = [
  ["execution", "bigint"],
  ["node", "text"],
  ["port", "text"],
  ["count", "int"],
] as const;

export function portValues(ports: Iterable<PortWish>): (Buffer | string)[] {
  const rows = [...ports].map(({ execution, node, port, count }) => [execution, node, port, count]);
  return rows.length === 0 ? portColumns.map(() => "{}") : binaryColumns(rows, portColumns);
}

/** Reads the packets from which it follows which other rows the operations may touch. No round trip if there are none. */
export async function discover(
  connection: PacketConnection,
  { nos, ports = [] }: { readonly nos: readonly number[]; readonly ports?: readonly PortWish[] },
): Promise<SeenPackets> {
  if (nos.length === 0 && ports.length === 0) return SeenPackets.none;
  const { packets, held, parts } = await ask<Seen>(connection, discoverStatement, [`{${nos.join(",")}}`, ...portValues(ports)]);
  const seen = new SeenPackets();
  for (const json of packets ?? []) seen.packets.set(json.no, toPacket(json));
  for (const { of, packet } of held ?? []) seen.addHeld(of, toPacket(packet));
  for (const part of parts ?? []) seen.addPart(part);
  return seen;
}

/** Packets that will be removed, and parts that may be joined to a packet that is claimed at once. */
export function unseenOf(operations: readonly PacketOperation[]): { nos: number[]; ports: PortWish[] } {
  const nos: number[] = [];
  const joins = new Wishes();
  for (const operation of operations) {
    if (operation.verb === "settlePacket" && (goes(operation.to.kind) || operation.outputs.length > 0)) nos.push(operation.no);
    for (const { claim, join, execution } of operation.packets) if (claim && join !== null) joins.join(execution, join);
  }
  return { nos, ports: [...joins.ports.values()] };
}

function goes(kind: string): boolean {
  return kind === "done" || kind === "dead";
}
