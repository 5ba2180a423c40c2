import { InvalidInputError } from "../../core/errors/errors.js";
import { knownOptions } from "../../core/errors/known-options.js";
import { newOwner } from "../../core/ledger/owner.js";
import { hasEnded } from "../../core/runs/run.js";
import { RunNotFoundError } from "../define/errors.js";
import { stepIdOf } from "../journal/identity.js";
import { readingStore } from "../process/ambient-store.js";
import type { InStore } from "./api.js";
import { readCall } from "./read-journal.js";
import { sendMail } from "./send-mail.js";

export interface CallRef extends InStore {
  readonly runId: string;
  /** The step, as the run's trouble names it. Or `callId`. */
  readonly stepId?: string;
  /** The call, as the journal names it: "charge#0". */
  readonly callId?: string;
}

/**
 * For a run that has diverged because its code calls a step with other arguments than the journal has: accepts the
 * journaled call as the one that the code asks for. Its journaled outcome stays, and nothing runs again; the run goes on.
 *
 * @example
 * await acceptCall({ runId: "order-1", callId: "charge#0" });
 */
export async function acceptCall(ref: CallRef): Promise<void> {
  knownOptions("acceptCall", ref, { store: true, runId: true, stepId: true, callId: true });
  const { store: given, runId, stepId, callId } = ref;
  if ((stepId === undefined) === (callId === undefined))
    throw new InvalidInputError("acceptCall", "needs a stepId or a callId, and not both");
  const store = await readingStore(given);
  const run = await store.runs.read(runId);
  if (run === undefined) throw new RunNotFoundError(runId);
  if (hasEnded(run.status)) throw new InvalidInputError("runId", `names a run that is over: ${run.status}`);
  const about = stepId ?? stepIdOf(runId, callId ?? "");
  const call = await readCall(runId, about, { store });
  if (call === undefined) throw new InvalidInputError(callId === undefined ? "stepId" : "callId", "names no step that this run has called");
  // Its next attempt would run with arguments that no attempt had before, under the key of those that the journal has.
  if (!call.settled)
    throw new InvalidInputError(callId === undefined ? "stepId" : "callId", `names step ${call.id}, which has no outcome in the journal`);
  const payload = JSON.stringify({ accept: call.id });
  const answer = await sendMail(store, { to: { run: runId }, kind: "resolve", about, payload, key: newOwner() });
  if (answer.kind === "absent") throw new RunNotFoundError(runId);
}
