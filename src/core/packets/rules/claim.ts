import type { PacketClaimQuery, PacketClaims } from "../operation.js";
import { toDead } from "./dead.js";
import { acknowledge, beginKey, ownsKey } from "./key.js";
import type { PacketRow, PacketTable, QueueId } from "./table.js";
import { Tally } from "./tally.js";

/** Maximum passes over one queue per claim. Packets that are still due wait for the next claim. */
const passesMax = 20;

/** Reads only. Returns undefined if a packet is due or a worker's lease has expired, so that `claimPackets` is worth a lock. */
export function nothingToClaim(table: PacketTable, query: PacketClaimQuery): PacketClaims | undefined {
  const now = table.now();
  const { awake, resting, known } = viewOf(table, query);
  const nextAt = nextOf(table, query.worker, awake);
  return nextAt !== null && nextAt <= now ? undefined : { now, claimed: [], closed: [], ended: [], nextAt, resting, known };
}

/** Claims due packets, in the order of the queues, and begins their keys in the same commit. */
export function claimPackets(table: PacketTable, query: PacketClaimQuery): PacketClaims {
  const { worker, limit } = query;
  const tally = new Tally(table);
  const { awake, resting, known } = viewOf(table, query);
  reap(tally, worker);
  const claimed: PacketRow[] = [];
  if (known) for (const queue of awake) takeFrom(tally, queue, worker, Math.min(queue.limit, limit - claimed.length), claimed);
  tally.finish();
  const nextAt = nextOf(table, worker, awake);
  return { now: tally.now, claimed, closed: tally.woken, ended: tally.ended, nextAt, resting, known };
}

/** `awake`: the queues with an active flow from which the worker wants packets. `resting`: flows that are not active. */
function viewOf(table: PacketTable, { worker, queues }: PacketClaimQuery) {
  const states = new Map(queues.map(({ flow }) => [flow, table.flowState(flow)]));
  const resting = [...states].filter(([, state]) => state !== "active").map(([flow]) => flow);
  const awake = queues.filter(({ flow, limit }) => limit > 0 && !resting.includes(flow));
  return { awake, resting, known: table.worker(worker) !== undefined };
}

function nextOf(table: PacketTable, worker: number, queues: readonly QueueId[]): number | null {
  const times = [...queues.map((queue) => table.nextDue(queue)), table.nextLapse(worker)].filter((at) => at !== null);
  return times.length === 0 ? null : Math.min(...times);
}

/**
 * Claims up to `wanted` packets of one queue. An acknowledged packet does not count, and may make others due: then the
 * queue is read again.
 */
function takeFrom(tally: Tally, queue: QueueId, worker: number, wanted: number, claimed: PacketRow[]): void {
  const { table, now } = tally;
  const until = claimed.length + wanted;
  for (let passes = 0; passes < passesMax && claimed.length < until; passes += 1) {
    const asked = until - claimed.length;
    const rows = table.due(queue, now, asked);
    const before = claimed.length;
    for (const row of rows) {
      const taken = take(tally, row, worker);
      if (taken) claimed.push(taken);
    }
    if (rows.length < asked && claimed.length - before === rows.length) return;
  }
}

/** Claims one packet and returns its new row. Undefined: the packet is not delivered now. */
function take(tally: Tally, row: PacketRow, worker: number): PacketRow | undefined {
  const { table } = tally;
  if (row.state === "part") {
    tally.note(row, "joinTimeout");
    const kept = toDead(tally, row, { note: "joinTimeout" });
    tally.add(row, { dead: kept ? 1 : 0 });
    if (!kept) tally.narrow(row);
    tally.wake(row, "dead", "joinTimeout");
    return undefined;
  }
  const verdict = row.key === null ? ownsKey : beginKey(tally, row.no, row.key);
  if (verdict.kind === "owner") {
    const claimed = { state: "due", hold: null, owner: worker, attempt: row.attempt + 1 } as const;
    table.change(row, claimed);
    return { ...row, ...claimed };
  }
  if (verdict.kind === "held") table.change(row, { state: "held", hold: "key", dueAt: verdict.dueAt });
  else acknowledge(tally, row, verdict.kind);
  return undefined;
}

/**
 * Returns all packets of workers whose lease expired to the queue, increments each packet's crash count, notes it, and removes the worker, in
 * one commit: `settlePacket` treats a missing packet of a *known* worker as settled, so a known worker must not lose only some of its packets.
 */
function reap(tally: Tally, self: number): void {
  const { table, now } = tally;
  for (const worker of table.lapsedWorkers(now)) {
    if (worker === self) continue;
    // Sorted, so that every store has the same order of notes.
    for (const row of [...table.ownedBy(worker)].sort((a, b) => a.no - b.no)) {
      table.change(row, { owner: null, crashes: row.crashes + 1 });
      tally.note(row, "crashed", String(row.attempt));
    }
    table.removeWorker(worker);
  }
}
