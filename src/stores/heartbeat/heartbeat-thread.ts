import { Worker, type WorkerOptions } from "node:worker_threads";
import type { HeartbeatThread } from "../../core/store/store.js";
import { ownUrl } from "../../core/work/own-url.js";
import { LeaseBoard } from "./lease-board.js";

/** What the thread is given. The address is the store's own; its `heartbeat.ts` knows what it means. */
export interface HeartbeatData<Address> {
  readonly store: string;
  readonly address: Address;
  readonly stallMsMax: number;
  readonly board: SharedArrayBuffer;
}

export interface HeartbeatSource<Address> {
  /** The name of the store's folder: `onceflow/heartbeat/<store>` is its thread. */
  readonly store: string;
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
export function startHeartbeatThread<Address>({ store, start, address, stallMsMax = 60_000 }: HeartbeatSource<Address>): HeartbeatThread {
  if (stallMsMax === 0) return withoutThread;
  const board = new LeaseBoard();
  const slots = new Map<string, number>();
  const free = Array.from({ length: board.slots }, (_, slot) => slot);
  let thread: Worker | undefined;
  let leaseMsMin = Number.POSITIVE_INFINITY;

  function startThread(): Worker {
    const workerData: HeartbeatData<Address> = { store, address, stallMsMax, board: board.memory };
    const started = startOrFind(start, { workerData, execArgv: [] });
    started.unref();
    started.on("error", (error) => warn(store, error));
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

/** A bundle in CommonJS format has no `import.meta.url`, so that `start` throws. The thread's file is beside the bundle. */
function startOrFind(start: (options: WorkerOptions) => Worker, options: WorkerOptions): Worker {
  try {
    return start(options);
  } catch {
    return new Worker(new URL("./heartbeat.js", ownUrl), options);
  }
}

function warn(store: string, error: Error): void {
  const failure = `the heartbeat thread of the ${store} store has failed: ${error.message}. A handler that blocks the event loop for longer than its lease loses the lease`;
  const advice = `This app is bundled without the thread's file: bundle "onceflow/heartbeat/${store}" into this file, or leave onceflow out of the bundle; stallMsMax: 0 runs without the thread`;
  const isMissing = /MODULE_NOT_FOUND$/.test((error as NodeJS.ErrnoException).code ?? "") && error.message.includes("heartbeat.js");
  process.emitWarning(isMissing ? `${failure}. ${advice}` : failure, { type: "OnceflowWarning", code: "ONCEFLOW_STAND_IN" });
}
