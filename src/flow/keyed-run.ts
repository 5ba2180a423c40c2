import {
  assert,
  GoneError,
  LeaseLostError,
  MismatchError,
  NotSavedError,
  OnceflowError,
  ResultNotKeptError,
} from "../core/errors/errors.js";
import { pollMs } from "../core/ledger/once.js";
import type { Answer, Begin, Settle, Settlement } from "../core/ledger/operation.js";
import { newOwner } from "../core/ledger/owner.js";
import type { LedgerRecord } from "../core/ledger/record.js";
import { takenOver } from "../core/ledger/run-attempt.js";
import { saveOutcome, saveProgress, sendBegin } from "../core/ledger/save.js";
import { noteOf } from "../core/ledger/settlement.js";
import type { Store } from "../core/store/store.js";
import { withinBytes } from "../core/values/codec.js";
import { FlowAlreadyRunningError } from "./errors.js";
import type { Ledger } from "./execution.js";
import { decodeProgress, encodeInitialProgress, encodeProgress, type Progress } from "./progress.js";
import { decodeFlowResult, encodeFlowResult, type FlowResult } from "./result.js";
import type { CheckedRun } from "./run-options.js";

type Started = Extract<Answer, { readonly kind: "started" }>;

/** What an attempt that has acquired the key needs to execute. */
export interface Admission {
  readonly runAttempt: number;
  readonly from: Progress | undefined;
  readonly ledger: Ledger;
}

/**
 * begin → run under a lease, continuing the progress of earlier attempts → settle. A caller that does not acquire the key
 * gets the stored result, or the answer that the flow is running.
 */
export async function runKeyed(
  store: Store,
  request: CheckedRun,
  execute: (admission: Admission) => Promise<FlowResult>,
): Promise<FlowResult> {
  const { flow, key, scope, signal, onRunning, onMismatch } = request;
  withinBytes("input", request.input, store.valueBytesMax);
  const deadline = store.clock.now() + request.waitMs;
  let { fingerprint } = request;
  for (let polls = 0; ; polls++) {
    const begin = beginOf(request, fingerprint);
    const answer = await sendBegin(store, begin, signal);
    switch (answer.kind) {
      case "started":
        return await runAttempt(store, request, begin, answer, execute);
      case "replay":
        return replay(answer.record);
      case "running": {
        const { attempt, forMs } = answer;
        const leftMs = deadline - store.clock.now();
        if (onRunning === "throw") throw new FlowAlreadyRunningError(flow, key, { attempt, retryAfterMs: Math.max(1, Math.ceil(forMs)) });
        if (onRunning === "return" || leftMs <= 0) return { name: flow, status: "running", durationMs: 0, steps: [] };
        await store.changed(begin, Math.min(pollMs(polls), forMs, leftMs), signal);
        break;
      }
      case "mismatch":
        if (onMismatch === "throw") throw new MismatchError({ scope, key, attempt: answer.attempt });
        // A begin without a fingerprint matches any stored outcome of the key.
        fingerprint = null;
        break;
      case "gone":
        throw new GoneError({ scope, key, attempt: answer.attempt });
      case "unknown":
        throw new OnceflowError(
          `key "${key}" was used with a stricter effect class and its outcome is unknown: check with the provider whether the effect happened, then resolve the key`,
          { code: "UNKNOWN_OUTCOME", scope, key, attempt: answer.attempt },
        );
      default:
        assert(false, `begin was answered with ${answer.kind}`);
    }
  }
}

async function runAttempt(
  store: Store,
  request: CheckedRun,
  begin: Begin,
  started: Started,
  execute: (admission: Admission) => Promise<FlowResult>,
): Promise<FlowResult> {
  const { flow, input, durable, cacheResult } = request;
  const { scope, key, owner } = begin;
  const { attempt } = started;
  const lost = new AbortController();
  const lose = (why: string) => lost.abort(new LeaseLostError({ scope, key, attempt }, why));
  const stopWatching = store.onLost(owner, lose);

  // Steps of a group save concurrently, and encoding can take time (a value may be a stream). Saves go out in the order in
  // which they were requested, so that an older snapshot cannot overwrite a newer one.
  let before: Promise<unknown> | undefined;
  const inTurn = (text: string | Promise<string>): string | Promise<string> => {
    if (typeof text === "string" && before === undefined) return text;
    const turn = Promise.resolve(before).then(() => text);
    const ended = turn
      .catch(() => {})
      .then(() => {
        if (before === ended) before = undefined;
      });
    before = ended;
    return turn;
  };
  const { valueBytesMax } = store;
  const save = async (progress: Omit<Progress, "input">): Promise<void> => {
    const text = withinBytes("context", await inTurn(encodeProgress(flow, input, progress, valueBytesMax)), valueBytesMax);
    const renew = { verb: "renew", scope, key, owner, attempt, leaseMs: begin.leaseMs, progress: text } as const;
    const answer = await saveProgress(store, renew, { signal: lost.signal, late: (error) => leave(error) });
    if (answer.kind !== "renewed") lose(takenOver);
  };
  const settle = async (result: FlowResult): Promise<void> => {
    const operation: Settle = { verb: "settle", scope, key, owner, attempt, to: settlementOf(result, cacheResult), note: noteFor(result) };
    const answer = await saveOutcome(store, operation);
    if (answer.kind !== "settled") throw new LeaseLostError({ scope, key, attempt }, takenOver);
  };

  const run = async (): Promise<FlowResult> => {
    let saving = false;
    try {
      const from = started.progress === null ? undefined : decodeProgress(flow, started.progress);
      const keeps = durable && store.capabilities.durable;
      return await execute({ runAttempt: attempt, from, ledger: { lost: lost.signal, settle, ...(keeps ? { save } : {}) } });
    } catch (error) {
      // The caller gets NotSavedError while saving continues in the background: keep the lease until it ends.
      saving = error instanceof NotSavedError && error.key === key;
      throw error;
    } finally {
      stopWatching();
      if (!saving) store.release(owner, begin);
    }
  };
  // If progress cannot be saved for a minute, the caller gets NotSavedError and the run continues without it.
  let leave: (error: NotSavedError) => void = () => {};
  return await new Promise<FlowResult>((resolve, reject) => {
    leave = reject;
    run().then(resolve, reject);
  });
}

function beginOf({ scope, key, flow, input, leaseMs, retentionMs }: CheckedRun, fingerprint: string | null): Begin {
  const progress = encodeInitialProgress(flow, input);
  return {
    verb: "begin",
    scope,
    key,
    owner: newOwner(),
    fingerprint,
    effect: "idempotent",
    leaseMs,
    retentionMs,
    horizonMs: 0,
    reconcileAfterMs: 0,
    over: null,
    progress,
  };
}

/** The key of a cancelled run becomes free, because the run was undone and may be requested again. The same without `cacheResult`. */
function settlementOf(result: FlowResult, cacheResult: boolean): Settlement {
  if (!cacheResult || result.status === "cancelled") return { state: "free", forget: true };
  return result.status === "completed"
    ? { state: "completed", outcome: encodeFlowResult(result) }
    : { state: "failed", outcome: encodeFlowResult(result) };
}

function noteFor({ status, error }: FlowResult): string | null {
  return status === "completed" ? null : status === "cancelled" ? "cancelled" : noteOf(error);
}

function replay(record: LedgerRecord): FlowResult {
  if (record.outcome === null) throw new ResultNotKeptError(record);
  return decodeFlowResult(record.outcome);
}
