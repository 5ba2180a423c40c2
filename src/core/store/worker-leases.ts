import type { HeartbeatThread, HeldRuns, HeldWorker, Store } from "./store.js";

/** Leases of all runs or packets of a worker. The worker renews them; while its event loop is blocked, the heartbeat thread does. */
export function workerLeases(heartbeatThread: HeartbeatThread | undefined): Pick<Store, "holdRuns" | "holdWorker"> {
  const hold = (lease: HeldRuns | HeldWorker) => {
    heartbeatThread?.hold([lease]);
    return { alive: () => heartbeatThread?.alive(), release: () => heartbeatThread?.drop([lease.owner]) };
  };
  return {
    holdRuns: (query) => hold({ ...query, runs: true }),
    holdWorker: (worker, leaseMs) => hold({ owner: `packets of ${worker}`, worker, leaseMs }),
  };
}
