import type { PacketClaimQuery, PacketClaims } from "../../../core/packets/operation.js";
import type { PacketRecord } from "../../../core/packets/packet.js";
import { claimPackets as claimFrom } from "../../../core/packets/rules/claim.js";
import type { PacketRow, QueueId } from "../../../core/packets/rules/table.js";
import { type PickedPackets, sameQueue } from "../../shared/claim-table.js";
import { Wishes } from "../../shared/packet-wishes.js";
import type { MongoClient, SessionOption } from "../driver.js";
import type { Collections } from "../layout.js";
import { inTransaction } from "../transactions/in-transaction.js";
import { toPacketRow } from "./document.js";
import { loadFlows, loadWorkers } from "./load.js";
import { orConflict } from "./race.js";
import { decideInside } from "./transaction.js";
import { reapWorker } from "./worker.js";

const looksMax = 20;
/** Before packets are claimed one by one. */
const triesTogether = 2;
/** When to retry packets that another transaction has written and not committed. */
const lookAgainMs = 20;
/** Packets that a claim tries one by one, above those that it wants. */
const spare = 20;

/** A claim, and how many packets of each queue it still wants. */
interface Look extends PacketClaimQuery {
  /** The number of the claim, which is written into the packets that it claims. */
  readonly claim: number;
}

/** Reads only, if nothing is due; else transactions, until as many packets as wanted are claimed. */
export async function claimPackets(
  client: MongoClient,
  collections: Collections,
  query: PacketClaimQuery,
  claim: number,
): Promise<PacketClaims> {
  let sum = await look(client, collections, { ...query, claim });
  for (let looks = 1; looks < looksMax && sum.more && sum.claimed.length < query.limit; looks++) {
    const { claimed, closed, ended } = sum;
    const queues = query.queues.map((queue) => ({ ...queue, limit: Math.max(0, queue.limit - countIn(claimed, queue)) }));
    const next = await look(client, collections, { ...query, claim, queues, limit: query.limit - claimed.length });
    sum = { ...next, claimed: [...claimed, ...next.claimed], closed: [...closed, ...next.closed], ended: [...ended, ...next.ended] };
  }
  const { more: _, ...claims } = sum;
  return claims;
}

function countIn(packets: readonly PacketRecord[], queue: QueueId): number {
  return packets.filter((packet) => sameQueue(packet, queue)).length;
}

/** What a claim reads before it opens a transaction. */
interface Outlook extends Omit<PacketClaims, "claimed" | "closed" | "ended"> {
  /** Other workers whose lease has expired, and owners that the store does not know. */
  readonly silent: readonly number[];
  /** Queues of active flows, each with the time of its first packet. */
  readonly heads: readonly (QueueId & { readonly at: number })[];
  readonly nextLapse: number | null;
}

/** `more`: packets were acknowledged or held, and others are due. */
async function look(client: MongoClient, collections: Collections, query: Look): Promise<PacketClaims & { readonly more: boolean }> {
  let outlook = await outlookOf(collections, query);
  if (outlook.silent.length > 0) {
    for (const worker of outlook.silent) await reapWorker(client, collections, worker);
    outlook = await outlookOf(collections, query);
  }
  const { silent: _s, heads, nextLapse, ...rest } = outlook;
  const nothing = { ...rest, claimed: [], closed: [], ended: [], more: false };
  if (!rest.known || query.limit <= 0 || !heads.some(({ at }) => at <= rest.now)) return nothing;
  const due = { ...query, queues: query.queues.filter((queue) => heads.some((head) => sameQueue(head, queue) && head.at <= rest.now)) };
  const together = await inTransaction(
    client,
    "a claim",
    (options) => orConflict(claimInside(collections, { ...due, nextLapse }, options)),
    { triesMax: triesTogether },
  );
  const claims = together === "again" ? await claimOneByOne(client, collections, { ...due, nextLapse }, rest) : together;
  const times = [claims.nextAt, ...heads.filter(({ at }) => at > rest.now).map(({ at }) => at)].filter((at) => at !== null);
  const nextAt = times.length === 0 ? null : Math.min(...times);
  return { ...claims, resting: rest.resting, nextAt, more: claims.nextAt !== null && claims.nextAt <= claims.now };
}

/** Concurrent reads: an index probe for each queue, all workers, and all owners of packets. */
async function outlookOf(collections: Collections, { worker, queues }: PacketClaimQuery): Promise<Outlook> {
  const { packets, packetWorkers } = collections;
  const [states, own, workers, owners, first] = await Promise.all([
    loadFlows(collections, new Set(queues.map(({ flow }) => flow)), {}),
    loadWorkers(collections, new Set([worker]), {}),
    packetWorkers.find({}).toArray(),
    packets.distinct("owner", { owner: { $gt: 0 } }),
    Promise.all(queues.filter(({ limit }) => limit > 0).map((queue) => headOf(collections, queue))),
  ]);
  const resting = [...new Set(queues.map(({ flow }) => flow))].filter((flow) => (states.get(flow) ?? "active") !== "active");
  const heads = first.flat().filter(({ flow }) => !resting.includes(flow));
  const others = workers.filter(({ _id }) => _id !== worker);
  const lapsed = others.filter(({ leaseUntil }) => leaseUntil <= own.now).map(({ _id }) => _id);
  const unknown = (owners as number[]).filter((no) => no !== worker && !workers.some(({ _id }) => _id === no));
  const nextLapse = others.length === 0 ? null : Math.min(...others.map(({ leaseUntil }) => leaseUntil));
  const times = [...heads.map(({ at }) => at), ...(nextLapse === null ? [] : [nextLapse])];
  return {
    now: own.now,
    known: own.workers.has(worker),
    resting,
    nextAt: times.length === 0 ? null : Math.min(...times),
    silent: [...new Set([...lapsed, ...unknown])],
    heads,
    nextLapse,
  };
}

async function headOf({ packets }: Collections, { flow, queue }: QueueId): Promise<(QueueId & { readonly at: number })[]> {
  const [head] = await packets
    .find({ flow, queue, claimAt: { $exists: true } }, { projection: { claimAt: 1 } })
    .sort({ claimAt: 1, _id: 1 })
    .limit(1)
    .toArray();
  return head?.claimAt === undefined ? [] : [{ flow, queue, at: head.claimAt }];
}

interface Claiming extends Look {
  readonly nextLapse: number | null;
  /** Only this packet. */
  readonly only?: number;
}

/**
 * Each packet in a transaction of its own, without those that conflict. If a process dies inside a transaction, MongoDB keeps what it
 * has written locked for a minute: that must not stop the other packets of a queue.
 */
async function claimOneByOne(
  client: MongoClient,
  collections: Collections,
  query: Claiming,
  { now, resting, known }: Pick<PacketClaims, "now" | "resting" | "known">,
): Promise<PacketClaims> {
  const found: PacketRow[] = [];
  for (const queue of query.queues) found.push(...(await firstOf(collections, queue, Math.min(queue.limit, query.limit) + spare, {})));
  const sum = {
    claimed: [] as PacketRecord[],
    closed: [] as PacketClaims["closed"][number][],
    ended: [] as PacketClaims["ended"][number][],
  };
  for (const { no, flow, queue, dueAt } of found) {
    const limit = query.queues.find((each) => sameQueue(each, { flow, queue }))?.limit ?? 0;
    if (dueAt > now || sum.claimed.length >= query.limit || countIn(sum.claimed, { flow, queue }) >= limit) continue;
    const one = { ...query, only: no, limit: 1, queues: [{ flow, queue, limit: 1 }] };
    const claims = await inTransaction(client, "a claim", (options) => orConflict(claimInside(collections, one, options)), { triesMax: 1 });
    if (claims === "again") continue;
    sum.claimed.push(...claims.claimed);
    sum.closed.push(...claims.closed);
    sum.ended.push(...claims.ended);
  }
  return { ...sum, now, resting, known, nextAt: now + lookAgainMs };
}

async function claimInside(collections: Collections, query: Claiming, options: Required<SessionOption>): Promise<PacketClaims> {
  const { now } = await loadWorkers(collections, new Set([query.worker]), options);
  const states = await loadFlows(collections, new Set(query.queues.map(({ flow }) => flow)), options);
  const active = query.queues.filter(({ flow }) => (states.get(flow) ?? "active") === "active");
  const rows: PacketRow[] = [];
  const upcoming: (QueueId & { readonly at: number })[] = [];
  for (const queue of active) {
    const count = Math.min(queue.limit, query.limit - rows.length);
    const found = await firstOf(collections, { ...queue, only: query.only }, count + 1, options);
    const picked = found.slice(0, count).filter(({ dueAt }) => dueAt <= now);
    rows.push(...picked);
    const next = found[picked.length];
    if (next !== undefined) upcoming.push({ flow: queue.flow, queue: queue.queue, at: next.dueAt });
  }
  const wishes = rows.reduce(wishing, new Wishes());
  for (const { flow } of query.queues) wishes.flows.add(flow);
  wishes.workers.add(query.worker);
  const picked: PickedPackets = { picked: rows, upcoming, nextLapse: query.nextLapse };
  return await decideInside(collections, { wishes, picked, claim: query.claim }, options, (table) => claimFrom(table, query));
}

async function firstOf(
  { packets }: Collections,
  { flow, queue, only }: QueueId & { readonly only?: number | undefined },
  limit: number,
  options: SessionOption,
): Promise<PacketRow[]> {
  const found = await packets
    .find({ flow, queue, claimAt: { $exists: true }, ...(only !== undefined && { _id: only }) }, { ...options, projection: { payload: 0 } })
    .sort({ claimAt: 1, _id: 1 })
    .limit(limit)
    .toArray();
  return found.map(toPacketRow);
}

/** The rows that a picked packet may need: with a key it may have to be acknowledged; a part that waited too long becomes a dead letter. */
function wishing(wishes: Wishes, row: PacketRow): Wishes {
  wishes.packets.add(row.no);
  if (row.state === "part") wishes.execution(row.execution);
  else if (row.key !== null) wishes.key(row.key).lane(row, row.lane).execution(row.execution);
  return wishes;
}
