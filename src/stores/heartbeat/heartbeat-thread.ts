import { Worker } from "node:worker_threads";
import type { StandIn } from "../../core/store/store.js";
import type { SqliteDriver } from "../sqlite/driver.js";
import { LeaseBoard } from "./lease-board.js";

/**
 * A handler that computes for longer than its lease blocks the event loop, and with it the heartbeat. This thread
 * stands in: every lease is on the board before its handler can start; the thread watches whether the event loop still
 * shows signs of life, and renews in its place while it does not, for `stallMsMax` at most. A process that is stuck
 * for longer than that has to be taken for dead.
 *
 * In a healthy process it sleeps: it has no connection, renews nothing, and is not woken by begins and settles.
 */
export type StandInTarget =
  | { readonly kind: "sqlite"; readonly path: string; readonly driver: SqliteDriver }
  | { readonly kind: "postgres"; readonly url: string; readonly schema: string; readonly pooled: boolean }
  | { readonly kind: "mongodb"; readonly url: string }
  | { readonly kind: "dynamodb"; readonly url: string }
  | { readonly kind: "redis"; readonly url: string };

export interface StandInData {
  readonly target: StandInTarget;
  readonly stallMsMax: number;
  readonly board: SharedArrayBuffer;
}

/** For a store that is not to be stood in for: a thread costs a good part of what starting a process does. */
const nobody: StandIn = { hold() {}, drop() {}, alive() {}, async close() {} };

export function startStandIn(target: StandInTarget, stallMsMax = 60_000): StandIn {
  if (stallMsMax === 0) return nobody;
  const board = new LeaseBoard();
  const slots = new Map<string, number>();
  const free = Array.from({ length: board.slots }, (_, slot) => slot);
  let worker: Worker | undefined;
  let leaseMsMin = Number.POSITIVE_INFINITY;

  function start(): Worker {
    const workerData: StandInData = { target, stallMsMax, board: board.memory };
    const started = new Worker(new URL("./thread.js", import.meta.url), { workerData, execArgv: [] });
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
      worker ??= start();
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
      await worker?.terminate();
    },
  };
}

function warn(message: string): void {
  process.emitWarning(message, { type: "OnceflowWarning", code: "ONCEFLOW_STAND_IN" });
}
