import { InvalidInputError, NotKnownError, NotUnknownError } from "../../core/errors/errors.js";
import { knownOptions } from "../../core/errors/known-options.js";
import { newOwner } from "../../core/ledger/owner.js";
import { hasEnded } from "../../core/runs/run.js";
import type { Store } from "../../core/store/store.js";
import { encodeError } from "../../core/values/stored-error.js";
import { beforeEffect } from "../../core/work/until-answered.js";
import { RunNotFoundError } from "../define/errors.js";
import { type EndedJournal, resolvedEvent, writeAfterEnd } from "../journal/after-end.js";
import type { Event } from "../journal/event.js";
import { readLineage } from "../journal/lineage.js";
import { type Resolution, type ResolutionMail, resolutionIn, resolutionKey } from "../journal/resolution.js";
import { readingStore } from "../process/ambient-store.js";
import { warnIfOverdue } from "../waiting/overdue.js";
import type { InStore } from "./api.js";
import { encodeForRun } from "./kept-value.js";
import { readAttempts } from "./read-journal.js";
import { sendMail, sendSafely } from "./send-mail.js";

/** An attempt of a step whose outcome is unknown. */
export interface StepRef extends InStore {
  readonly runId: string;
  readonly stepId: string;
  /** Number of the attempt whose outcome is unknown. */
  readonly attempt: number;
}

/** What an operator found out about an attempt. `notApplied`: the effect did not happen; the step is retried unless its run has ended. */
export type StepResolution = { readonly completed: unknown } | { readonly failed: unknown } | "notApplied";

/**
 * Settles a step whose outcome is unknown. The run continues; if it has ended, the outcome is recorded after its end. Of
 * several callers only one succeeds. Throws NotUnknownError if the outcome of that attempt is not unknown, or another caller
 * was first; RunNotFoundError if there is no such run; and NotKnownError if the store did not confirm which caller was first.
 *
 * @example
 * await resolveStep({ runId: "alarm:7", stepId, attempt: 1 }, { completed: "sent, says the provider" });
 */
export async function resolveStep(ref: StepRef, resolution: StepResolution): Promise<void> {
  knownOptions("resolveStep", ref, { store: true, runId: true, stepId: true, attempt: true });
  const { store: given, runId, stepId, attempt } = ref;
  const store = await readingStore(given);
  const decision = { runId, stepId, attempt, to: await resolutionOf(resolution, store), by: newOwner() };
  const run = await store.runs.read(runId);
  if (run === undefined) throw new RunNotFoundError(runId);
  warnIfOverdue(store, [run]);
  if (hasEnded(run.status) || (await sendToRun(store, decision)) === "ended") await resolveAfterEnd(store, decision);
}

async function resolutionOf(resolution: StepResolution, store: Store): Promise<Resolution> {
  if (resolution === "notApplied") return resolution;
  if (typeof resolution === "object" && resolution !== null) {
    if ("completed" in resolution) return { done: await encodeForRun("completed", resolution.completed, store) };
    if ("failed" in resolution) return { fail: encodeError(resolution.failed) };
  }
  throw new InvalidInputError("resolution", 'must be { completed: value }, { failed: error } or "notApplied"');
}

interface Decision extends Required<Omit<ResolutionMail, "accept">> {
  readonly runId: string;
  readonly stepId: string;
}

/** Sends the resolution as mail. The owner of the run journals the mail together with its consequences. */
async function sendToRun(store: Store, decision: Decision): Promise<"sent" | "ended"> {
  const { runId, stepId, attempt, to, by } = decision;
  const last = (await readAttempts(runId, stepId, { store })).at(-1);
  if (last?.attempt !== attempt || last.verdict !== "unknown")
    throw notUnknown(decision, last ? `attempt ${last.attempt} is ${last.verdict}` : "this run has no such step");
  const payload = JSON.stringify({ attempt, to, by } satisfies ResolutionMail);
  const key = resolutionKey(stepId, attempt);
  const answer = await sendMail(store, { to: { run: runId }, kind: "resolve", about: stepId, payload, key });
  if (answer.kind === "absent") throw new RunNotFoundError(runId);
  if (answer.kind === "ended") return "ended";
  if (answer.kind === "sent" && answer.duplicate && !(await isMine(store, decision)))
    throw notUnknown(decision, "another caller has resolved the step");
  return "sent";
}

/** A duplicate may be the mail of this call: if the store's reply was lost, the mail was sent again. */
async function isMine(store: Store, { runId, stepId, attempt, by }: Decision): Promise<boolean> {
  try {
    const mail = await beforeEffect(store, () => store.runs.mail(runId, 0));
    return mail.some(({ kind, about, payload }) => {
      const { attempt: of, by: caller } = kind === "resolve" && about === stepId ? resolutionIn(payload) : {};
      return of === attempt && caller === by;
    });
  } catch (error) {
    throw new NotKnownError(`it is not known whether this call or another one resolved step ${stepId}`, error);
  }
}

async function resolveAfterEnd(store: Store, decision: Decision): Promise<void> {
  const { runId, stepId, attempt, to, by } = decision;
  const run = await store.runs.read(runId);
  if (run === undefined) throw new RunNotFoundError(runId);
  const lineage = await readLineage(store, runId);
  // A claim without workflows claims nothing; its answer has the time of the database.
  const { now: at } = await store.runs.claim({ owner: by, workflows: [], leaseMs: 1000, limit: 1 });
  const decide = ({ doubts }: EndedJournal): readonly Event[] => {
    const [id] = [...doubts].find(([call, of]) => of === attempt && lineage.stepIdOf(runId, call) === stepId) ?? [];
    if (id === undefined) throw notUnknown(decision, "its outcome is known, or this run has no such step");
    return [resolvedEvent({ id, at, attempt, to, by })];
  };
  const written = await writeAfterEnd(store, { id: runId, epoch: run.epoch, send: (operation) => sendSafely(store, operation), decide });
  // The run was retried meanwhile, with the step still unknown.
  if (written === "retried") await sendToRun(store, decision);
}

function notUnknown({ runId, stepId, attempt }: Decision, found: string): NotUnknownError {
  return new NotUnknownError({ scope: runId, key: stepId, attempt }, found);
}
