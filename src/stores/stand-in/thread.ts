import { workerData } from "node:worker_threads";
import type { Renew } from "../../core/operation.js";
import type { Backend, HeldLease } from "../../core/store.js";
import { openPostgres } from "../postgres/open.js";
import { openSqlite } from "../sqlite/open.js";
import { LeaseBoard } from "./lease-board.js";
import type { StandInData } from "./stand-in.js";

/** Runs in a thread of its own: see stand-in.ts. It has nothing else to do, so it may sleep without an event loop. */
const { target, stallMsMax, board: memory } = workerData as StandInData;
const board = new LeaseBoard(memory);
let backend: Promise<Backend> | undefined;

for (;;) {
  // Four looks in a lease: a stall is seen at half of it, and renewed before three quarters are over.
  const everyMs = board.leaseMsMin / 4;
  board.sleep(everyMs);
  const silentMs = board.silentMs();
  if (silentMs < everyMs * 2 || silentMs > stallMsMax) continue;
  const leases = board.read();
  if (leases.length > 0) await renew(leases);
}

async function renew(leases: readonly HeldLease[]): Promise<void> {
  try {
    backend ??= target.kind === "sqlite" ? openSqlite(target) : openPostgres(target);
    await (await backend).flush(inOrder(leases).map(toRenew));
  } catch {
    // The store can't be reached from here either. The next look tries again, on a new connection.
    backend = undefined;
  }
}

/** By record, and one per record: of two attempts of one record the later one counts. */
function inOrder(leases: readonly HeldLease[]): HeldLease[] {
  const byRecord = new Map<string, HeldLease>();
  for (const lease of leases) {
    const row = `${lease.scope}\0${lease.key}`;
    const other = byRecord.get(row);
    if (other === undefined || other.attempt < lease.attempt) byRecord.set(row, lease);
  }
  return [...byRecord].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, lease]) => lease);
}

function toRenew({ scope, key, owner, attempt, leaseMs }: HeldLease): Renew {
  return { verb: "renew", scope, key, owner, attempt, leaseMs };
}
