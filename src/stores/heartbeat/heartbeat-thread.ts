import { Worker, type WorkerOptions } from "node:worker_threads";
import type { HeartbeatThread } from "../../core/store/store.js";
import { ownUrl } from "../../core/work/own-url.js";
import { LeaseBoard } from "./lease-board.js";

/** What is passed to the thread. The form of the address is defined by the store; its `heartbeat.ts` interprets it. */
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
   * Starts `heartbeat.ts` of the store as a thread. Each store contains the expression `new Worker(new URL("./heartbeat.js",
   * import.meta.url), options)` itself, because bundlers find the thread's file only by this literal form.
   */
  readonly start: (options: WorkerOptions) => Worker;
  /** How the thread connects to the database. It is copied to the thread. */
  readonly address: Address;
  /** How long a process with a blocked event loop keeps its leases. Default 60 s; 0: there is no thread. */
  readonly stallMsMax: number | undefined;
}

/** Used with `stallMsMax: 0`: starting a thread is expensive. */
const withoutThread: HeartbeatThread = { hold() {}, drop() {}, alive() {}, async close() {} };

/**
 * Renews leases while a handler blocks the event loop, which then cannot renew them itself. Every lease is written to shared memory (the
 * board) before its handler can start. The thread checks whether the event loop still beats; if it does not, the thread renews
 * all leases, for at most `stallMsMax`. A process that is blocked for longer counts as dead.
 *
 * In a healthy process the thread sleeps: it has no connection, renews nothing, and is not woken by begins and settles.
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
        // The board is full: these leases are renewed by the event loop only.
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
