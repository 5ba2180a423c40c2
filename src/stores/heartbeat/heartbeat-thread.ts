import type { Worker, WorkerOptions } from "node:worker_threads";
import type { HeartbeatThread } from "../../core/store/store.js";
import { LeaseBoard } from "./lease-board.js";

/** What the thread is given. The address is the store's own; its `heartbeat.ts` knows what it means. */
export interface HeartbeatData<Address> {
  readonly address: Address;
  readonly stallMsMax: number;
  readonly board: SharedArrayBuffer;
}

export interface HeartbeatSource<Address> {
  /**
   * Starts `heartbeat.ts` of the store as a thread. The store writes `new Worker(new URL("./heartbeat.js", import.meta.url), options)`
   * itself: bundlers find the thread's file by these very words.
   */
  readonly start: (options: WorkerOptions) => Worker;
  /** How the thread finds the database. It is copied to the thread. */
  readonly address: Address;
  /** How long a stuck process keeps its leases. Default 60 s; 0: there is no thread. */
  readonly stallMsMax: number | undefined;
}

/** A thread costs a good part of what starting a process does: a store that needs none gets this. */
const withoutThread: HeartbeatThread = { hold() {}, drop() {}, alive() {}, async close() {} };

/**
 * A handler that computes for longer than its lease blocks the event loop, and with it the heartbeat. This thread
 * stands in: every lease is on the board before its handler can start; the thread watches whether the event loop still
 * shows signs of life, and renews in its place while it does not, for `stallMsMax` at most. A process that is stuck
 * for longer than that has to be taken for dead.
 *
 * In a healthy process it sleeps: it has no connection, renews nothing, and is not woken by begins and settles.
 */
export function startHeartbeatThread<Address>({ start, address, stallMsMax = 60_000 }: HeartbeatSource<Address>): HeartbeatThread {
  if (stallMsMax === 0) return withoutThread;
  const board = new LeaseBoard();
  const slots = new Map<string, number>();
  const free = Array.from({ length: board.slots }, (_, slot) => slot);
  let thread: Worker | undefined;
  let leaseMsMin = Number.POSITIVE_INFINITY;

  function startThread(): Worker {
    const workerData: HeartbeatData<Address> = { address, stallMsMax, board: board.memory };
    const started = start({ workerData, execArgv: [] });
    started.unref();
    started.on("error", (error) => warn(`leases of handlers that block the event loop will not be renewed: ${error.message}`));
    return started;
  }

  return {
    hold(leases) {
      board.beat();
      for (const lease of leases) {
        const slot = free.pop();
        // More at once than the board has room for: these are renewed by the event loop only.
        if (slot === undefined) break;
        slots.set(lease.owner, slot);
        board.write(slot, lease);
        if (lease.leaseMs < leaseMsMin) {
          leaseMsMin = lease.leaseMs;
          board.leaseMsMin = leaseMsMin;
        }
      }
      thread ??= startThread();
    },
    drop(owners) {
      for (const owner of owners) {
        const slot = slots.get(owner);
        if (slot === undefined) continue;
        slots.delete(owner);
        board.clear(slot);
        free.push(slot);
      }
    },
    alive: () => board.beat(),
    async close() {
      await thread?.terminate();
    },
  };
}

function warn(message: string): void {
  process.emitWarning(message, { type: "OnceflowWarning", code: "ONCEFLOW_STAND_IN" });
}
