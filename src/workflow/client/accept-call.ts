import { InvalidInputError } from "../../core/errors/errors.js";
import { knownOptions } from "../../core/errors/known-options.js";
import { newOwner } from "../../core/ledger/owner.js";
import { hasEnded } from "../../core/runs/run.js";
import { RunNotFoundError } from "../define/errors.js";
import { readLineage } from "../journal/history/lineage.js";
import { readingStore } from "../process/ambient-store.js";
import type { InStore } from "./in-store.js";
import { readCall } from "./read-journal.js";
import { sendMail } from "./send-mail.js";

/** A journaled call of a step: give either `stepId` or `callId`. */
export interface CallRef extends InStore {
  readonly runId: string;
  /** The stepId, as in the run's `trouble`. */
  readonly stepId?: string;
  /** The id of the call in the journal, such as "charge#0". */
  readonly callId?: string;
}

/**
 * For a run that has diverged because its code calls a step with other arguments than those in the journal: accepts the
 * journaled call in place of the new one. The journaled outcome stays, the step does not run again, and the run continues.
 * Throws RunNotFoundError if there is no such run, and InvalidInputError if the run has ended or the journal has no outcome
 * of the call.
 *
 * @example
 * await acceptCall({ runId: "order-1", callId: "charge#0" });
 */
export async function acceptCall(ref: CallRef): Promise<void> {
  knownOptions("acceptCall", ref, { store: true, runId: true, stepId: true, callId: true });
  const { store: given, runId, stepId, callId } = ref;
  if ((stepId === undefined) === (callId === undefined)) throw new InvalidInputError("acceptCall", "needs either a stepId or a callId");
  const store = await readingStore(given);
  const run = await store.runs.read(runId);
  if (run === undefined) throw new RunNotFoundError(runId);
  if (hasEnded(run.status)) throw new InvalidInputError("runId", `is the id of a run that has ended: ${run.status}`);
  const about = stepId ?? (await readLineage(store, runId)).stepIdOf(runId, callId ?? "");
  const call = await readCall(runId, about, { store });
  if (call === undefined) throw new InvalidInputError(callId === undefined ? "stepId" : "callId", "is not a step call of this run");
  // Without an outcome a next attempt would run: with new arguments, under the idempotency key of the journaled ones.
  if (!call.settled)
    throw new InvalidInputError(callId === undefined ? "stepId" : "callId", `is step ${call.id}, which has no outcome in the journal`);
  const payload = JSON.stringify({ accept: call.id });
  const answer = await sendMail(store, { to: { run: runId }, kind: "resolve", about, payload, key: newOwner() });
  if (answer.kind === "absent") throw new RunNotFoundError(runId);
}
