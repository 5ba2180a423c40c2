import type { DeadLetterQuery, ExecutionQuery, PageCursor, QueueCount } from "../../../core/packets/operation.js";
import type { ExecutionNote, ExecutionRecord, PacketRecord } from "../../../core/packets/packet.js";
import type { Collections } from "../layout.js";
import { idsOf, labelOf, toExecutionRow, toPacketRow } from "./document.js";

/** Items that are older than a cursor, where `at` is the member that has their time. */
function olderThan(at: string, before: PageCursor | undefined): object {
  if (before === undefined) return {};
  return { $or: [{ [at]: { $lt: before.at } }, { [at]: before.at, _id: { $lt: before.no } }] };
}

export async function listDeadLetters({ packets }: Collections, { flow, name, before, limit }: DeadLetterQuery): Promise<PacketRecord[]> {
  const where = {
    ...(flow !== undefined && { flow }),
    ...(name !== undefined && { "dead.name": name }),
    $and: [{ "dead.at": { $exists: true } }, olderThan("dead.at", before)],
  };
  return (await packets.find(where).sort({ "dead.at": -1, _id: -1 }).limit(limit).toArray()).map(toPacketRow);
}

const statuses = { running: { open: { $gt: 0 } }, dead: { open: 0, dead: { $gt: 0 } }, completed: { open: 0, dead: 0 } };

export async function listExecutions({ executions }: Collections, query: ExecutionQuery): Promise<ExecutionRecord[]> {
  const { flow, status, scope, attribute, before, limit } = query;
  const where = {
    ...(flow !== undefined && { flow }),
    ...(status !== undefined && statuses[status]),
    ...(scope !== undefined && { scope: scope === "" ? { $exists: false } : scope }),
    ...(attribute !== undefined && { labels: labelOf(attribute.name, attribute.text) }),
    ...olderThan("createdAt", before),
  };
  return (await executions.find(where).sort({ createdAt: -1, _id: -1 }).limit(limit).toArray()).map(toExecutionRow);
}

export async function readPacket({ packets }: Collections, no: number): Promise<PacketRecord | undefined> {
  const found = await packets.findOne({ _id: no });
  return found === null ? undefined : toPacketRow(found);
}

export async function readExecution({ executions }: Collections, no: number): Promise<ExecutionRecord | undefined> {
  const found = await executions.findOne({ _id: no });
  return found === null ? undefined : toExecutionRow(found);
}

export async function readNotes({ notes }: Collections, execution: number, limit: number): Promise<ExecutionNote[]> {
  const found = await notes.find(idsOf(execution)).sort({ _id: 1 }).limit(limit).toArray();
  return found.map(({ at, kind, queue, packet, about }) => ({ at, kind, queue, packet, about }));
}

/** Open packets have no index by execution: they are searched only while the execution has some. */
export async function packetsOf({ packets, executions }: Collections, execution: number, limit: number): Promise<PacketRecord[]> {
  const found = await executions.findOne({ _id: execution }, { projection: { open: 1 } });
  const isOpen = (found?.open ?? 1) > 0;
  const rows = await packets
    .find(isOpen ? { execution } : { aside: execution })
    .sort({ createdAt: 1, _id: 1 })
    .limit(limit)
    .toArray();
  return rows.map(toPacketRow);
}

const countWhen = (when: unknown) => ({ $sum: { $cond: [when, 1, 0] } });
const isOwned = { $ne: [{ $type: "$owner" }, "missing"] };
const isWaiting = (state: string) => countWhen({ $and: [{ $not: [isOwned] }, { $eq: ["$state", state] }] });

/** Counts all packets: this reads the whole collection. */
export async function readCounts({ packets }: Collections): Promise<QueueCount[]> {
  const counts = {
    due: isWaiting("due"),
    held: isWaiting("held"),
    parts: isWaiting("part"),
    dead: isWaiting("dead"),
    owned: countWhen(isOwned),
  };
  const found = await packets
    .aggregate<Omit<QueueCount, "flow" | "queue"> & { readonly _id: { readonly flow: string; readonly queue: string } }>([
      { $group: { _id: { flow: "$flow", queue: "$queue" }, ...counts } },
      { $sort: { "_id.flow": 1, "_id.queue": 1 } },
    ])
    .toArray();
  return found.map(({ _id, ...count }) => ({ ..._id, ...count }));
}
