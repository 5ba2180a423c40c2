import { workerData } from "node:worker_threads";
import type { Renew } from "../../core/ledger/operation.js";
import type { Backend, HeldLease } from "../../core/store/store.js";
import type { StandInData } from "./heartbeat-thread.js";
import { type Held, LeaseBoard } from "./lease-board.js";

/** Runs in a thread of its own: see stand-in.ts. It has nothing else to do, so it may sleep without an event loop. */
const { target, stallMsMax, board: memory } = workerData as StandInData;
const board = new LeaseBoard(memory);
let renewedAt = new Map<string, number>();
let backend: Promise<Backend> | undefined;
/** The store is open elsewhere in this process: it was checked there. */
const check = false;

// A store and its driver take a good part of a short lease to load: not when the lease is at stake. Nor at once: most
// stores that are soon closed never need them.
board.sleep(board.leaseMsMin / 10);
await load().catch(() => {});

for (;;) {
  await look();
  // Four looks in the shortest lease: a stall is seen at half of a lease, and renewed before three quarters are over.
  board.sleep(board.leaseMsMin / 4);
}

async function look(): Promise<void> {
  const silentMs = board.silentMs();
  if (silentMs < board.leaseMsMin / 2 || silentMs > stallMsMax) return;
  // A healthy event loop beats at a third of the shortest lease it holds now, which may be a long one.
  const due = board.read().filter(({ owner, leaseMs }) => Math.min(silentMs, sinceRenewed(owner) * 2) >= leaseMs / 2);
  if (due.length > 0) await renew(due);
}

function sinceRenewed(owner: string): number {
  return performance.now() - (renewedAt.get(owner) ?? Number.NEGATIVE_INFINITY);
}

async function renew(leases: readonly Held[]): Promise<void> {
  try {
    backend ??= openTarget();
    const { flush, runs, packets } = await backend;
    const records = leases.filter((lease) => "key" in lease);
    const verdicts = records.length > 0 ? await flush(inOrder(records).map(toRenew)) : [];
    for (const verdict of verdicts) if (verdict instanceof Error) throw verdict;
    for (const lease of leases) {
      if ("runs" in lease) await runs?.renew(lease);
      if ("worker" in lease) await packets?.renew(lease.worker, lease.leaseMs);
    }
    renewedAt = new Map([...renewedAt, ...leases.map(({ owner }) => [owner, performance.now()] as const)].slice(-board.slots));
  } catch {
    // The store can't be reached from here either. The next look tries again, on a new connection.
    backend = undefined;
  }
}

/** What this store needs to be opened, and no other one. */
async function load(): Promise<() => Promise<Backend>> {
  switch (target.kind) {
    case "sqlite": {
      const { openSqlite } = await import("../sqlite/backend.js");
      return () => openSqlite(target);
    }
    case "postgres": {
      await (await import("../postgres/driver.js")).loadDriver();
      const { openPostgres } = await import("../postgres/backend.js");
      return () => openPostgres({ ...target, check });
    }
    case "mongodb": {
      await (await import("../mongodb/driver.js")).loadDriver();
      const { openMongoUrl } = await import("../mongodb/backend.js");
      return () => openMongoUrl({ url: target.url, check });
    }
    case "dynamodb": {
      await (await import("../dynamodb/driver.js")).loadDriver();
      const { openDynamo } = await import("../dynamodb/backend.js");
      return () => openDynamo({ ...target, check });
    }
    case "redis": {
      await (await import("../redis/driver.js")).loadDriver();
      const { openRedis } = await import("../redis/open.js");
      return () => openRedis({ ...target, check });
    }
  }
}

async function openTarget(): Promise<Backend> {
  return (await load())();
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
