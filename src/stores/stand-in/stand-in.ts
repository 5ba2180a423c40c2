import { Worker } from "node:worker_threads";
import type { HeldLease, StandIn } from "../../core/store.js";
import type { SqliteDriver } from "../sqlite/driver.js";

/**
 * A handler that computes for longer than its lease blocks the event loop, and with it the heartbeat. This thread
 * stands in: it is told of every lease before its handler can start, watches whether the event loop still shows signs
 * of life, and renews in its place while it does not, for `stallMsMax` at most. A process that is stuck for longer
 * than that has to be taken for dead.
 *
 * In a healthy process it only listens: it has no connection and renews nothing.
 */
export type StandInTarget =
  | { readonly kind: "sqlite"; readonly path: string; readonly driver: SqliteDriver }
  | { readonly kind: "postgres"; readonly url: string; readonly schema: string };

export interface StandInData {
  readonly target: StandInTarget;
  readonly stallMsMax: number;
  /** hrtime in ms, written by the event loop, read by the thread. */
  readonly aliveAt: BigInt64Array;
}

export interface StandInMessage {
  readonly hold: readonly HeldLease[];
  readonly drop: readonly string[];
}

export const monotonicMs = (): bigint => process.hrtime.bigint() / 1_000_000n;

export function startStandIn(target: StandInTarget, stallMsMax = 60_000): StandIn {
  const aliveAt = new BigInt64Array(new SharedArrayBuffer(8));
  let worker: Worker | undefined;
  let dropped: string[] = [];

  function start(): Worker {
    const workerData: StandInData = { target, stallMsMax, aliveAt };
    const started = new Worker(new URL("./thread.js", import.meta.url), { workerData, execArgv: [] });
    started.unref();
    started.on("error", (error) => {
      process.emitWarning(`leases of handlers that block the event loop will not be renewed: ${error.message}`, {
        type: "OnceflowWarning",
        code: "ONCEFLOW_STAND_IN",
      });
    });
    return started;
  }

  return {
    hold(leases) {
      Atomics.store(aliveAt, 0, monotonicMs());
      worker ??= start();
      const message: StandInMessage = { hold: leases, drop: dropped };
      worker.postMessage(message);
      dropped = [];
    },
    /** Goes along with the next `hold`: a renewal of what is settled changes nothing. */
    drop(owners) {
      dropped.push(...owners);
      if (dropped.length < 1000) return;
      worker?.postMessage({ hold: [], drop: dropped } satisfies StandInMessage);
      dropped = [];
    },
    alive: () => void Atomics.store(aliveAt, 0, monotonicMs()),
    async close() {
      await worker?.terminate();
    },
  };
}
