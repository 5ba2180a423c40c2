import { FlowAlreadyRunningError } from "./errors.js";
import type { IdempotencyRecord, IdempotencyStore } from "./idempotency-store.js";
import type { Admission } from "./keyed-run.js";
import type { FlowResult } from "./result.js";
import type { CheckedRun } from "./run-options.js";

/** A run on a custom store has no lease, so it cannot be taken over: this signal never aborts. */
const neverLost = new AbortController().signal;
const pollMs = 50;

/**
 * A keyed run on a custom IdempotencyStore: start, run, complete or fail. There is no lease, fence, fingerprint or
 * progress; if the process dies in between, the custom store decides when the key can be acquired again.
 */
export async function runOnCustomStore(
  store: IdempotencyStore,
  request: CheckedRun,
  execute: (admission: Admission) => Promise<FlowResult>,
): Promise<FlowResult> {
  const { flow, key, retentionMs, cacheResult, onRunning, waitMs, signal } = request;
  const deadline = performance.now() + waitMs;
  for (;;) {
    const { acquired, record } = await store.start(key, retentionMs === null ? {} : { ttlMs: retentionMs });
    if (acquired) {
      const settle = async (result: FlowResult) => {
        if (!cacheResult || result.status === "cancelled") await store.delete(key);
        else if (result.status === "completed") await store.complete(key, result);
        else await store.fail(key, result.error);
      };
      return await execute({ runAttempt: 1, from: undefined, ledger: { lost: neverLost, settle } });
    }
    if (record.status !== "running") return resultOf(flow, record);
    if (onRunning === "throw") throw new FlowAlreadyRunningError(flow, key);
    const leftMs = deadline - performance.now();
    if (onRunning === "return" || leftMs <= 0) return { name: flow, status: "running", durationMs: 0, steps: [] };
    await pause(Math.min(pollMs, leftMs), signal);
  }
}

function resultOf(flow: string, { status, result, error }: IdempotencyRecord): FlowResult {
  if (status === "completed") return result as FlowResult;
  return { name: flow, status: "failed", durationMs: 0, steps: [], error };
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted();
  return new Promise((go) => void setTimeout(go, ms));
}
