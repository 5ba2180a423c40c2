import type { PacketClaimQuery, PacketClaims } from "../../../../core/packets/operation.js";
import { claimPackets as claimFrom } from "../../../../core/packets/rules/claim.js";
import type { PacketRow } from "../../../../core/packets/rules/table.js";
import { ClaimTable, sameQueue } from "../../../shared/claim-table.js";
import { Wishes } from "../../../shared/packet-wishes.js";
import { arrayLiteral } from "../../parameters/columns.js";
import { ask, askAlone, type PacketConnection } from "../ask.js";
import { toPacket } from "../row.js";
import { lock } from "../transaction/lock.js";
import { read } from "../transaction/read.js";
import { inTransaction } from "../transaction/transaction.js";
import { write } from "../transaction/write.js";
import { claimStatement, type Picked, reapStatement } from "./statement.js";

/** Maximum packets of expired workers that one reap returns to their queues. */
const reapMax = 1000;
const reapsMax = 3;
const looksMax = 20;
const rowsMsMax = 1000;

/** A claim, and how many packets of each queue it still wants. */
interface Look extends PacketClaimQuery {
  /** The number of the claim, which is written into the rows that it claims. */
  readonly claim: number;
  readonly left: readonly number[];
}

/** One round trip if nothing is due, or no due packet has a key; else transactions, until as many packets as wanted are claimed. */
export async function claimPackets(connection: PacketConnection, query: PacketClaimQuery, claim: number): Promise<PacketClaims> {
  let sum = await look(connection, { ...query, claim, left: query.queues.map((queue) => queue.limit) });
  for (let looks = 1; looks < looksMax && sum.more && sum.claimed.length < query.limit; looks++) {
    const { claimed, closed, ended } = sum;
    const left = query.queues.map((queue) => queue.limit - claimed.filter((packet) => sameQueue(packet, queue)).length);
    const next = await look(connection, { ...query, claim, left, limit: query.limit - claimed.length });
    sum = { ...next, claimed: [...claimed, ...next.claimed], closed: [...closed, ...next.closed], ended: [...ended, ...next.ended] };
  }
  const { more: _, ...claims } = sum;
  return claims;
}

/** `more`: packets were acknowledged or held, and others are due. */
async function look(connection: PacketConnection, query: Look): Promise<PacketClaims & { readonly more: boolean }> {
  let found = await pick(connection, query, { take: true, reaped: false });
  for (let reaps = 1; found.silent && reaps <= reapsMax; reaps++) {
    await askAlone(connection, reapStatement, [query.worker, reapMax]);
    found = await pick(connection, query, { take: true, reaped: reaps === reapsMax });
  }
  if (found.picked === null || found.taken !== null) return { ...claimsOf(found, (found.taken ?? []).map(toPacket)), more: false };
  const claims = await inTransaction(connection.client, rowsMsMax, (extra) => claimInside(connection, query, extra));
  // The claim lost every race: the packets are still due.
  if (claims === undefined) return { ...claimsOf(found, []), nextAt: found.now, more: false };
  return { ...claims, more: claims.nextAt !== null && claims.nextAt <= claims.now };
}

async function pick(
  connection: PacketConnection,
  { worker, queues, limit, left, claim }: Look,
  { take, reaped }: { readonly take: boolean; readonly reaped: boolean },
): Promise<Picked> {
  const of = (name: "flow" | "queue") => arrayLiteral(queues.map((queue) => queue[name]));
  const counts = arrayLiteral(left.map(bounded));
  const wanted = arrayLiteral(queues.map((queue) => queue.limit > 0));
  // With `take` the statement runs by itself and is retried here; without, it is part of a transaction, which the caller retries.
  return await (take ? askAlone<Picked> : ask<Picked>)(connection, claimStatement, [
    of("flow"),
    of("queue"),
    counts,
    worker,
    bounded(limit),
    claim,
    take,
    wanted,
    reaped,
  ]);
}

function bounded(limit: number): number {
  return Math.max(0, Math.min(limit, 10_000));
}

/** Locks due packets, then the rows that they need. Rows that another transaction has locked are left out: a claim does not wait. */
async function claimInside(connection: PacketConnection, query: Look, extra: Wishes): Promise<PacketClaims> {
  const found = await pick(connection, query, { take: false, reaped: true });
  const rows = (found.picked ?? []).map(toPacket);
  const wishes = rows.reduce(wishing, new Wishes().add(extra));
  for (const { flow } of query.queues) wishes.flows.add(flow);
  wishes.workers.add(query.worker);
  const locked = await lock(connection, wishes, "skip");
  const table = new ClaimTable(await read(connection, wishes), locked, wishes, found);
  const claims = claimFrom(table, query);
  await write(connection, table.changes(), query.claim);
  return claims;
}

/** The rows that a picked packet may need: with a key it may have to be acknowledged; a part that waited too long becomes a dead letter. */
function wishing(wishes: Wishes, row: PacketRow): Wishes {
  wishes.packets.add(row.no);
  if (row.state === "part") wishes.execution(row.execution);
  else if (row.key !== null) wishes.key(row.key).lane(row, row.lane).execution(row.execution).joins(row);
  return wishes;
}

function claimsOf({ now, known, resting, upcoming, nextLapse }: Picked, claimed: readonly PacketRow[]): PacketClaims {
  const times = [...(upcoming ?? []).map(({ at }) => at), ...(nextLapse === null ? [] : [nextLapse])];
  const nextAt = times.length === 0 ? null : Math.min(...times);
  return { now, claimed, closed: [], ended: [], nextAt, resting: resting ?? [], known };
}
