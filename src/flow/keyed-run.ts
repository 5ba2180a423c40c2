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
import { saveOutcome, saveProgress, sendBegin } from "../core/ledger/save.js";
import { noteOf } from "../core/ledger/settlement.js";
import type { Store } from "../core/store/store.js";
import { withinBytes } from "../core/values/codec.js";
import { FlowAlreadyRunningError } from "./errors.js";
import type { Ledger } from "./execution.js";
import { decodeProgress, encodeBeginning, encodeProgress, type Progress } from "./progress.js";
import { decodeFlowResult, encodeFlowResult, type FlowResult } from "./result.js";
import type { CheckedRun } from "./run-options.js";

type Started = Extract<Answer, { readonly kind: "started" }>;

/** What a run that was let through needs to know. */
export interface Admission {
  readonly runAttempt: number;
  readonly from: Progress | undefined;
  readonly ledger: Ledger;
}

/**
 * begin → run, under its lease, from where earlier attempts got → settle. Who does not get to run it gets the stored
 * result, or is told that it is running.
 */
export async function runKeyed(
  store: Store,
  asked: CheckedRun,
  execute: (admission: Admission) => Promise<FlowResult>,
): Promise<FlowResult> {
  const { flow, key, scope, signal, onRunning, onMismatch } = asked;
  withinBytes("input", asked.input, store.valueBytesMax);
  const deadline = store.clock.now() + asked.waitMs;
  let { fingerprint } = asked;
  for (let polls = 0; ; polls++) {
    const begin = beginOf(asked, fingerprint);
    const answer = await sendBegin(store, begin, signal);
    switch (answer.kind) {
      case "started":
        return await runAttempt(store, asked, begin, answer, execute);
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
        // Without a fingerprint it asks for whatever was done under the key.
        fingerprint = null;
        break;
      case "gone":
        throw new GoneError({ scope, key, attempt: answer.attempt });
      case "unknown":
        throw new OnceflowError(
          `key "${key}" was used with a stricter effect class, and its outcome is unknown: look at the other side, then resolve it`,
          { code: "UNKNOWN_OUTCOME", scope, key, attempt: answer.attempt },
        );
      default:
        assert(false, `begin was answered with ${answer.kind}`);
    }
  }
}

async function runAttempt(
  store: Store,
  asked: CheckedRun,
  begin: Begin,
  started: Started,
  execute: (admission: Admission) => Promise<FlowResult>,
): Promise<FlowResult> {
  const { flow, input, durable, cacheResult } = asked;
  const { scope, key, owner } = begin;
  const { attempt } = started;
  const lost = new AbortController();
  const lose = (why: string) => lost.abort(new LeaseLostError({ scope, key, attempt }, why));
  const stopWatching = store.onLost(owner, lose);

  // Steps of a group save side by side: what one saves while another one's body is read must not be overwritten by it.
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
    if (answer.kind !== "renewed") lose("another attempt or a person took over");
  };
  const settle = async (result: FlowResult): Promise<void> => {
    const operation: Settle = { verb: "settle", scope, key, owner, attempt, to: settlementOf(result, cacheResult), note: noteFor(result) };
    const answer = await saveOutcome(store, operation);
    if (answer.kind !== "settled") throw new LeaseLostError({ scope, key, attempt }, "another attempt or a person took over");
  };

  const run = async (): Promise<FlowResult> => {
    let saving = false;
    try {
      const from = started.progress === null ? undefined : decodeProgress(flow, started.progress);
      const keeps = durable && store.capabilities.durable;
      return await execute({ runAttempt: attempt, from, ledger: { lost: lost.signal, settle, ...(keeps ? { save } : {}) } });
    } catch (error) {
      // The caller leaves, the saving goes on: the lease must hold until it is done.
      saving = error instanceof NotSavedError && error.key === key;
      throw error;
    } finally {
      stopWatching();
      if (!saving) store.release(owner, begin);
    }
  };
  // A caller whose run cannot be saved for a minute leaves, and the run goes on.
  let leave: (error: NotSavedError) => void = () => {};
  return await new Promise<FlowResult>((resolve, reject) => {
    leave = reject;
    run().then(resolve, reject);
  });
}

function beginOf({ scope, key, flow, input, leaseMs, retentionMs }: CheckedRun, fingerprint: string | null): Begin {
  const progress = encodeBeginning(flow, input);
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

/** A cancelled run was undone, and somebody may still want it: its key is free. So it is when no result is to be kept. */
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
