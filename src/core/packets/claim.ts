import type { PacketClaimQuery, PacketClaims } from "../packet-operation.js";
import { toDead } from "./dead.js";
import { acknowledge, beginKey, mine } from "./key.js";
import type { PacketRow, PacketTable, QueueId } from "./table.js";
import { Tally } from "./tally.js";

/** Packets of a silent worker that are made due in one go. */
const reapMax = 1000;
/** Looks at one queue in one claim: what is acknowledged or held on the way is written, and the rest waits for the next. */
const looksMax = 20;

/** Takes what is due, in the order of the queues, and begins its keys. */
export function claimPackets(table: PacketTable, { worker, queues, limit }: PacketClaimQuery): PacketClaims {
  const tally = new Tally(table);
  const { now } = tally;
  const known = table.worker(worker) !== undefined;
  reap(tally, worker);
  const states = new Map(queues.map(({ flow }) => [flow, table.flowState(flow)]));
  const resting = [...states].filter(([, state]) => state !== "active").map(([flow]) => flow);
  const awake = queues.filter(({ flow }) => !resting.includes(flow));
  const claimed: PacketRow[] = [];
  let more = false;
  if (known) {
    for (const queue of awake) {
      const wanted = Math.min(queue.limit, limit - claimed.length);
      more = takeFrom(tally, queue, worker, wanted, claimed) || more;
    }
  }
  tally.finish();
  const times = more ? [now] : [...awake.map((queue) => table.nextDue(queue)), table.nextLapse(worker)].filter((at) => at !== null);
  const nextAt = times.length === 0 ? null : Math.min(...times);
  return { now, claimed, closed: tally.woken, ended: tally.ended, nextAt, resting, known };
}

/** Up to `wanted` of one queue; what is acknowledged on the way does not count. True when there may be more. */
function takeFrom(tally: Tally, queue: QueueId, worker: number, wanted: number, claimed: PacketRow[]): boolean {
  const { table, now } = tally;
  const until = claimed.length + wanted;
  for (let looks = 0; looks < looksMax && claimed.length < until; looks += 1) {
    const rows = table.due(queue, now, until - claimed.length);
    for (const row of rows) {
      const taken = take(tally, row, worker);
      if (taken) claimed.push(taken);
    }
    if (rows.length === 0) return false;
  }
  return true;
}

/** The row as its new owner has it; undefined when it is not delivered. */
function take(tally: Tally, row: PacketRow, worker: number): PacketRow | undefined {
  const { table } = tally;
  if (row.state === "part") {
    tally.note(row, "joinTimeout");
    tally.add(row, { dead: toDead(tally, row, { note: "joinTimeout" }) ? 1 : 0 });
    tally.wake(row, "dead");
    return undefined;
  }
  const verdict = row.key === null ? mine : beginKey(tally, row.no, row.key);
  if (verdict.kind === "mine") {
    const claimed = { state: "due", hold: null, owner: worker, attempt: row.attempt + 1 } as const;
    table.change(row, claimed);
    return { ...row, ...claimed };
  }
  if (verdict.kind === "held") table.change(row, { state: "held", hold: "key", dueAt: verdict.dueAt });
  else acknowledge(tally, row, verdict.kind);
  return undefined;
}

/** What silent workers had is anybody's; that they died on it is counted. */
function reap({ table, now }: Tally, self: number): void {
  for (const worker of table.lapsedWorkers(now)) {
    if (worker === self) continue;
    const rows = table.ownedBy(worker, reapMax);
    for (const row of rows) table.change(row, { owner: null, crashes: row.crashes + 1 });
    if (rows.length < reapMax) table.removeWorker(worker);
  }
}
