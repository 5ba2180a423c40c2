import { type RecordId, rowOf } from "../../../core/ledger/record.js";
import type { PacketRow } from "../../../core/packets/rules/table.js";
import type { Loaded, Reaching } from "../../shared/loaded-packet-table.js";
import { type Lane, laneName, type Wishes } from "../../shared/packet-wishes.js";
import type { SessionOption } from "../driver.js";
import type { Collections } from "../layout.js";
import { now } from "../ledger/expressions.js";
import { type RecordAndNow, recordAndNow, toReading } from "../ledger/record-document.js";
import { idIn, placeOf } from "../ledger/record-place.js";
import { toExecutionRow, toPacketRow } from "./document.js";

export interface LoadedPackets extends Loaded {
  /** The number of notes that each execution has had. */
  readonly noted: ReadonlyMap<number, number>;
}

/**
 * Reads the rows that a transaction may touch, one command after the other: a transaction has one snapshot, and its commands may not run
 * at the same time. Payloads are read only where they are needed.
 */
export async function loadRows(collections: Collections, wishes: Wishes, options: Required<SessionOption>): Promise<LoadedPackets> {
  const { workers, now: time } = await loadWorkers(collections, wishes.workers, options);
  const packets = new Map<number, PacketRow>();
  const executions = await findExecutions(collections, wishes.executions, options);
  const whole = new Set(executions.filter(({ _id, open }) => open <= wishes.packets.size || wishes.ends.has(_id)).map(({ _id }) => _id));
  const missing = [...wishes.executions].filter((no) => !executions.some(({ _id }) => _id === no));
  for (const row of await findParts(collections, [...whole, ...missing], options)) packets.set(row.no, row);
  for (const row of await findHeld(collections, wishes.keys, options)) packets.set(row.no, row);
  for (const lane of wishes.lanes.values()) for (const row of await findLane(collections, lane, options)) packets.set(row.no, row);
  for (const row of await findPorts(collections, wishes, options)) packets.set(row.no, row);
  for (const row of await findPackets(collections, wishes.packets, options)) packets.set(row.no, row);
  return {
    now: time,
    workers,
    packets: [...packets.values()],
    executions: executions.map(toExecutionRow),
    whole,
    reaching: await countReaching(collections, [...whole], options),
    records: await findRecords(collections, wishes.keys, options),
    flows: await loadFlows(collections, wishes.flows, options),
    noted: new Map(executions.map(({ _id, noted }) => [_id, noted])),
  };
}

/** The leases of the workers that exist, and the server's time. */
export async function loadWorkers(
  { packetWorkers, meta }: Collections,
  numbers: ReadonlySet<number>,
  options: SessionOption,
): Promise<Pick<Loaded, "workers" | "now">> {
  const projection = { leaseUntil: 1, now };
  const found = numbers.size === 0 ? [] : await packetWorkers.find({ _id: { $in: [...numbers] } }, { ...options, projection }).toArray();
  const workers = new Map(found.map(({ _id, leaseUntil }) => [_id, leaseUntil]));
  const [first] = found as unknown as { readonly now: number }[];
  if (first !== undefined) return { workers, now: first.now };
  // `open` has written this document.
  const schema = (await meta.findOne({ _id: "schema" }, { ...options, projection: { now } })) as unknown as { readonly now: number };
  return { workers, now: schema.now };
}

export async function loadFlows(
  { flows }: Collections,
  names: ReadonlySet<string>,
  options: SessionOption,
): Promise<Map<string, Loaded["flows"] extends ReadonlyMap<string, infer State> ? State : never>> {
  if (names.size === 0) return new Map();
  const found = await flows.find({ _id: { $in: [...names] } }, options).toArray();
  return new Map(found.map(({ _id, state }) => [_id, state]));
}

async function findExecutions({ executions }: Collections, numbers: ReadonlySet<number>, options: SessionOption) {
  if (numbers.size === 0) return [];
  return await executions.find({ _id: { $in: [...numbers] } }, { ...options, projection: { input: 0 } }).toArray();
}

async function findPackets({ packets }: Collections, numbers: ReadonlySet<number>, options: SessionOption): Promise<PacketRow[]> {
  if (numbers.size === 0) return [];
  return (await packets.find({ _id: { $in: [...numbers] } }, options).toArray()).map(toPacketRow);
}

const withoutPayload = { payload: 0 };

async function findParts({ packets }: Collections, executions: readonly number[], options: SessionOption): Promise<PacketRow[]> {
  if (executions.length === 0) return [];
  const where = { aside: { $in: [...executions] }, state: "part" as const };
  return (await packets.find(where, { ...options, projection: withoutPayload }).toArray()).map(toPacketRow);
}

async function findHeld({ packets }: Collections, keys: ReadonlyMap<string, RecordId>, options: SessionOption): Promise<PacketRow[]> {
  if (keys.size === 0) return [];
  return (await packets.find({ heldBy: { $in: [...keys.keys()] } }, { ...options, projection: withoutPayload }).toArray()).map(toPacketRow);
}

interface ReachGroup {
  readonly _id: Omit<Reaching, "count">;
  readonly count: number;
}

/** How many packets of these executions may still fill the same ports of joins. */
async function countReaching({ packets }: Collections, executions: readonly number[], options: SessionOption): Promise<Reaching[]> {
  if (executions.length === 0) return [];
  const kinds = { _id: { execution: "$execution", state: "$state", reach: "$reach" }, count: { $sum: 1 } };
  const groups = packets.aggregate<ReachGroup>([{ $match: { reaching: { $in: [...executions] } } }, { $group: kinds }], options);
  return (await groups.toArray()).map(({ _id, count }) => ({ ..._id, count }));
}

/** Only the head of a lane can be removed, so the first packets are enough, and the last one for the next position. */
const headsMax = 3;

async function findLane({ packets }: Collections, lane: Lane, options: SessionOption): Promise<PacketRow[]> {
  const at = (direction: 1 | -1, limit: number) =>
    packets
      .find({ inLane: laneName(lane) }, { ...options, projection: withoutPayload })
      .sort({ place: direction })
      .limit(limit)
      .toArray();
  const heads = await at(1, headsMax);
  const last = heads.length < headsMax ? [] : await at(-1, 1);
  return [...heads, ...last].map(toPacketRow);
}

/** The oldest parts that wait at the other ports of a node, as many as can be joined. */
async function findPorts({ packets }: Collections, { ports }: Wishes, options: SessionOption): Promise<PacketRow[]> {
  const found: PacketRow[] = [];
  for (const { execution, node, port, count } of ports.values()) {
    const oldest = packets
      .find({ aside: execution, state: "part", "part.node": node, "part.port": port }, options)
      .sort({ createdAt: 1, _id: 1 })
      .limit(count);
    found.push(...(await oldest.toArray()).map(toPacketRow));
  }
  return found;
}

async function findRecords(
  collections: Collections,
  keys: ReadonlyMap<string, RecordId>,
  options: SessionOption,
): Promise<Loaded["records"]> {
  const byScope = new Map<string, RecordId[]>();
  for (const id of keys.values()) byScope.set(id.scope, [...(byScope.get(id.scope) ?? []), id]);
  const found: Loaded["records"][number][] = [];
  for (const [scope, ids] of byScope) {
    const place = await placeOf(collections, scope);
    if (place === undefined) continue;
    const documents = await place.records
      .find({ _id: { $in: ids.map((id) => idIn(place, id)) } }, { ...options, projection: recordAndNow })
      .toArray();
    found.push(...documents.map((document) => toReading(document as unknown as RecordAndNow).record));
  }
  return found;
}

/** What counts as locked is everything that was read: the transaction fails if it writes to what another one has written since. */
export function lockedBy({ executions, records }: Loaded, { lanes }: Wishes) {
  return {
    lanes: new Set(lanes.keys()),
    executions: new Set(executions.map(({ no }) => no)),
    keys: new Set(records.map(rowOf)),
  };
}
