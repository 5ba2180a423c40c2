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
import { stepIdOf } from "../journal/identity.js";
import { type Resolution, type ResolutionMail, resolutionIn, resolutionKey } from "../journal/resolution.js";
import { readingStore } from "../process/ambient-store.js";
import { noticeOverdue } from "../waiting/overdue.js";
import type { InStore } from "./api.js";
import { keptValue } from "./kept-value.js";
import { readAttempts } from "./read-journal.js";
import { sendMail, sendSafely } from "./send-mail.js";

export interface StepRef extends InStore {
  readonly runId: string;
  readonly stepId: string;
  /** The attempt in doubt. */
  readonly attempt: number;
}

export type StepResolution = { readonly completed: unknown } | { readonly failed: unknown } | "notApplied";

/**
 * Settles a step whose outcome is unknown. Its run goes on; if the run has ended, the outcome is recorded after its
 * end. Of several callers exactly one succeeds. NotUnknownError when that attempt is not in doubt, or another caller was first.
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
  noticeOverdue(store, [run]);
  if (hasEnded(run.status) || (await sendToRun(store, decision)) === "ended") await resolveAfterEnd(store, decision);
}

async function resolutionOf(resolution: StepResolution, store: Store): Promise<Resolution> {
  if (resolution === "notApplied") return resolution;
  if (typeof resolution === "object" && resolution !== null) {
    if ("completed" in resolution) return { done: await keptValue("completed", resolution.completed, store) };
    if ("failed" in resolution) return { fail: encodeError(resolution.failed) };
  }
  throw new InvalidInputError("resolution", 'must be { completed: value }, { failed: error } or "notApplied"');
}

interface Decision extends Required<Omit<ResolutionMail, "accept">> {
  readonly runId: string;
  readonly stepId: string;
}

/** By mail, which its owner takes in together with what follows from it. */
async function sendToRun(store: Store, decision: Decision): Promise<"sent" | "ended"> {
  const { runId, stepId, attempt, to, by } = decision;
  const last = (await readAttempts(runId, stepId, { store })).at(-1);
  if (last?.attempt !== attempt || last.verdict !== "unknown")
    throw notUnknown(decision, last ? `attempt ${last.attempt} is ${last.verdict}` : "there is no such step in this run");
  const payload = JSON.stringify({ attempt, to, by } satisfies ResolutionMail);
  const key = resolutionKey(stepId, attempt);
  const answer = await sendMail(store, { to: { run: runId }, kind: "resolve", about: stepId, payload, key });
  if (answer.kind === "absent") throw new RunNotFoundError(runId);
  if (answer.kind === "ended") return "ended";
  if (answer.kind === "sent" && answer.duplicate && !(await isMine(store, decision)))
    throw notUnknown(decision, "another caller has resolved it");
  return "sent";
}

/** The mail that the store took first may be our own: the reply to it was lost, and it was sent again. */
async function isMine(store: Store, { runId, stepId, attempt, by }: Decision): Promise<boolean> {
  try {
    const mail = await beforeEffect(store, () => store.runs.mail(runId, 0));
    return mail.some(({ kind, about, payload }) => {
      const { attempt: of, by: caller } = kind === "resolve" && about === stepId ? resolutionIn(payload) : {};
      return of === attempt && caller === by;
    });
  } catch (error) {
    throw new NotKnownError(`whether step ${stepId} was resolved by this call or by another one is not known`, error);
  }
}

async function resolveAfterEnd(store: Store, decision: Decision): Promise<void> {
  const { runId, stepId, attempt, to, by } = decision;
  const run = await store.runs.read(runId);
  if (run === undefined) throw new RunNotFoundError(runId);
  // A claim that wants nothing only tells the store's time.
  const { now: at } = await store.runs.claim({ owner: by, workflows: [], leaseMs: 1000, limit: 1 });
  const decide = ({ doubts }: EndedJournal): readonly Event[] => {
    const [id] = [...doubts].find(([call, of]) => of === attempt && stepIdOf(runId, call) === stepId) ?? [];
    if (id === undefined) throw notUnknown(decision, "its outcome is known, or there is no such step in this run");
    return [resolvedEvent({ id, at, attempt, to, by })];
  };
  await writeAfterEnd(store, { id: runId, epoch: run.epoch, send: (operation) => sendSafely(store, operation), decide });
}

function notUnknown({ runId, stepId, attempt }: Decision, found: string): NotUnknownError {
  return new NotUnknownError({ scope: runId, key: stepId, attempt }, found);
}
