import type { Worker, WorkerOptions } from "node:worker_threads";
import type { HeartbeatThread } from "../../core/store/store.js";
import { LeaseBoard } from "./lease-board.js";

/** What is passed to the thread. The form of the address is defined by the store; its `heartbeat.ts` interprets it. */
export interface HeartbeatData<Address> {
  readonly address: Address;
  readonly stallMsMax: number;
  readonly board: SharedArrayBuffer;
}

export interface HeartbeatSource<Address> {
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
    started.on("error", (error) =>
      warn(`the heartbeat thread failed; leases of handlers that block the event loop are not renewed: ${error.message}`),
    );
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

function warn(message: string): void {
  process.emitWarning(`[onceflow] ${message}`, { type: "OnceflowWarning", code: "ONCEFLOW_STAND_IN" });
}
