import { type RecordId, rowOf } from "../../core/ledger/record.js";
import type { NewPacket, NewPart, PacketOperation } from "../../core/packets/operation.js";
import type { QueueId } from "../../core/packets/rules/table.js";
import type { SeenPackets } from "./seen-packets.js";

export interface Lane extends QueueId {
  readonly lane: string;
}

/** The first parts that wait at a port of a node, as many as can be joined. */
export interface PortWish {
  readonly execution: number;
  readonly node: string;
  readonly port: string;
  readonly count: number;
}

/**
 * The rows that a transaction may touch. Rows that other transactions could change or add to are locked before they are read: lanes, by
 * name; executions, with their parts; keys, with the packets that they hold; packets to settle.
 */
export class Wishes {
  /** Packets to read: whether they exist, and who owns them. */
  readonly packets = new Set<number>();
  readonly settled = new Set<number>();
  readonly executions = new Set<number>();
  /** Executions that end, or whose joins may be decided: all their parts are needed. */
  readonly ends = new Set<number>();
  readonly keys = new Map<string, RecordId>();
  readonly lanes = new Map<string, Lane>();
  readonly ports = new Map<string, PortWish>();
  readonly flows = new Set<string>();
  readonly workers = new Set<number>();

  key(id: RecordId | null): this {
    if (id !== null) this.keys.set(rowOf(id), { scope: id.scope, key: id.key });
    return this;
  }

  lane({ flow, queue }: QueueId, lane: string | null): this {
    if (lane !== null) this.lanes.set(laneName({ flow, queue, lane }), { flow, queue, lane });
    return this;
  }

  execution(no: number | null): this {
    if (no !== null) this.executions.add(no);
    return this;
  }

  /** What decides the joins that wait for this packet. */
  joins({ execution, reach = null }: Pick<NewPacket, "execution"> & { readonly reach?: readonly string[] | null | undefined }): this {
    if (execution !== null && reach !== null && reach.length > 0) this.ends.add(execution);
    return this;
  }

  join(execution: number | null, { node, port, ports }: Pick<NewPart, "node" | "port" | "ports">): this {
    if (execution === null) return this;
    for (const name of ports) {
      if (name === port) continue;
      const id = JSON.stringify([execution, node, name]);
      this.ports.set(id, { execution, node, port: name, count: (this.ports.get(id)?.count ?? 0) + 1 });
    }
    return this;
  }

  add(other: Wishes): this {
    for (const name of ["packets", "settled", "executions", "ends", "workers"] as const) for (const no of other[name]) this[name].add(no);
    for (const flow of other.flows) this.flows.add(flow);
    for (const [id, key] of other.keys) this.keys.set(id, key);
    for (const [id, lane] of other.lanes) this.lanes.set(id, lane);
    for (const [id, port] of other.ports) this.ports.set(id, { ...port, count: port.count + (this.ports.get(id)?.count ?? 0) });
    return this;
  }
}

/** Also the name of the lane's lock. */
export function laneName({ flow, queue, lane }: Lane): string {
  return JSON.stringify([flow, queue, lane]);
}

/** The rows that follow from the operation, and from what was read of the packet that it settles. */
export function wishesOf(operation: PacketOperation, seen: SeenPackets): Wishes {
  const wishes = new Wishes();
  for (const packet of operation.packets) {
    wishes.packets.add(packet.no);
    if (packet.letter?.alert !== undefined) wishes.packets.add(packet.letter.alert.no);
    wishes.flows.add(packet.flow);
    placing(wishes, packet, seen);
  }
  wishes.workers.add(operation.worker);
  if (operation.verb === "sendPackets") {
    const { execution } = operation;
    if (execution === null) return wishes;
    wishes.execution(execution.no).key(execution.key).flows.add(execution.flow);
    return wishes;
  }
  const { no, to, outputs } = operation;
  wishes.packets.add(no);
  wishes.settled.add(no);
  const packet = seen.packets.get(no);
  if (packet === undefined) return wishes;
  const goes = to.kind === "done" || to.kind === "dead";
  if (goes) wishes.key(packet.key).lane(packet, packet.lane);
  if (goes || outputs.length > 0) wishes.execution(packet.execution);
  if (goes) wishes.joins(packet);
  // Packets that are held by its key are acknowledged with it.
  if (to.kind === "done") for (const held of seen.heldBehind(no)) wishes.lane(held, held.lane).execution(held.execution).joins(held);
  return wishes;
}

function placing(wishes: Wishes, { flow, queue, execution, key, lane, join, claim, reach }: NewPacket, seen: SeenPackets): void {
  wishes.execution(execution).lane({ flow, queue }, lane?.name ?? null);
  if (join !== null) wishes.join(execution, join).joins({ execution, reach });
  if (!claim) return;
  wishes.key(key);
  if (join !== null && execution !== null) for (const id of seen.keysOfParts(execution, join.node)) wishes.key(id);
}

/** The rows for retrying or discarding a dead letter. */
export function letterWishes(no: number, seen: SeenPackets): Wishes {
  const wishes = new Wishes();
  wishes.packets.add(no);
  wishes.settled.add(no);
  const packet = seen.packets.get(no);
  if (packet === undefined) return wishes;
  wishes.lane(packet, packet.lane).execution(packet.execution).joins(packet);
  if (packet.part !== null) wishes.join(packet.execution, packet.part);
  return wishes;
}
