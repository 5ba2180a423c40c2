import { InvalidInputError, NotUnknownError } from "../../core/errors/errors.js";
import type { OptionNames } from "../../core/errors/known-options.js";
import { newOwner } from "../../core/ledger/owner.js";
import { hasEnded, type RunRecord } from "../../core/runs/run.js";
import type { Store } from "../../core/store/store.js";
import { encodeError } from "../../core/values/stored-error.js";
import { ActionRefusedError, RunNotFoundError } from "../define/errors.js";
import { type EndedJournal, resolvedEvent, writeAfterEnd } from "../journal/ends/after-end.js";
import type { Event } from "../journal/event.js";
import { readLineage } from "../journal/history/lineage.js";
import { type Resolution, type ResolutionMail, resolutionKey } from "../journal/mail/resolution.js";
import { readingStore } from "../process/ambient-store.js";
import { warnIfOverdue } from "../waiting/overdue.js";
import {
  type ActionOptions,
  type ActionResult,
  actionOptionNames,
  checkActionOptions,
  firstAnswer,
  logEntryOf,
  perform,
} from "./actions/action.js";
import { readFailedRun, reopening } from "./actions/reopen.js";
import { timeOf } from "./actions/retry-run.js";
import { encodeForRun } from "./kept-value.js";
import { readAttempts, readEvents } from "./read-journal.js";
import { sendSafely } from "./send-mail.js";

/** An attempt of a step whose outcome is unknown, or that has failed for good in a failed run. */
export interface StepRef extends ActionOptions {
  readonly runId: string;
  readonly stepId: string;
  /** Number of the attempt. */
  readonly attempt: number;
  /** How the operator knows, for the operator log. */
  readonly reason: string;
}

/** What an operator found out about an attempt. `notApplied`: the effect did not happen; the step is retried unless its run has ended. */
export type StepResolution = { readonly completed: unknown } | { readonly failed: unknown } | "notApplied";

const refNames: OptionNames<StepRef> = { ...actionOptionNames, runId: true, stepId: true, attempt: true };

/**
 * Settles a step whose outcome is unknown. The run continues; if it has ended, the outcome is recorded after its end. A step that has failed for good can be given a
 * result, too ("it was done by hand"): its failed run goes on with it, as after `retryRun`. Of several callers only one succeeds. Throws NotUnknownError if
 * the outcome of that attempt is known, or another caller was first; RunNotFoundError if there is no such run; ActionRefusedError if a failed run cannot go
 * on (see `retryRun`); InvalidInputError if there is no reason; and NotKnownError if the store did not confirm which caller was first.
 *
 * @example
 * await resolveStep({ runId: "alarm:7", stepId, attempt: 1, actor: "ada", reason: "asked the provider" }, { completed: "sent" });
 */
export async function resolveStep(ref: StepRef, resolution: StepResolution): Promise<ActionResult> {
  checkActionOptions("resolveStep", ref, refNames);
  const { store: given, runId, stepId, attempt, reason } = ref;
  if (reason === undefined) throw new InvalidInputError("reason", "is missing; say how the outcome of the step is known");
  if (typeof stepId !== "string" || stepId === "")
    throw new InvalidInputError("stepId", "must be the id of a step, as in the run's trouble");
  if (!Number.isInteger(attempt) || attempt < 1) throw new InvalidInputError("attempt", "must be the number of an attempt, from 1");
  const store = await readingStore(given);
  const to = await resolutionOf(resolution, store);
  const decision = { runId, stepId, attempt, to, by: newOwner(), options: ref };
  return await firstAnswer({ store, action: "resolve", run: runId, options: ref }, () => resolve(store, decision));
}

/** `creator`: the run that the decision is about. If that was deleted meanwhile, and another one has its id, nothing is written to the new one. */
async function resolve(store: Store, decision: Decision, creator?: string): Promise<ActionResult & Answer> {
  const { runId, stepId, attempt } = decision;
  const run = await store.runs.read(runId);
  if (run === undefined || run.creator !== (creator ?? run.creator)) throw new RunNotFoundError(runId);
  warnIfOverdue(store, [run]);
  const last = (await readAttempts(runId, stepId, { store })).at(-1);
  if (run.status === "failed" && last?.attempt === attempt && last.verdict === "failed") return await resolveFailed(store, run, decision);
  if (hasEnded(run.status)) return await resolveAfterEnd(store, run, decision);
  if (last?.attempt !== attempt || last.verdict !== "unknown")
    throw notUnknown(decision, last ? `attempt ${last.attempt} is ${last.verdict}` : "this run has no such step");
  return await sendToRun(store, run, decision);
}

/** What the operator log says about a resolution. */
interface Answer {
  readonly stepId: string;
  readonly attempt: number;
  readonly as: "completed" | "failed" | "notApplied";
}

async function resolutionOf(resolution: StepResolution, store: Store): Promise<Resolution> {
  if (resolution === "notApplied") return resolution;
  if (typeof resolution === "object" && resolution !== null && Object.keys(resolution).length === 1) {
    if ("completed" in resolution) return { done: await encodeForRun("completed", resolution.completed, store) };
    if ("failed" in resolution) return { fail: encodeError(resolution.failed) };
  }
  throw new InvalidInputError("resolution", 'must be { completed: value }, { failed: error } or "notApplied"');
}

interface Decision extends Required<Omit<ResolutionMail, "accept" | "retries">> {
  readonly runId: string;
  readonly stepId: string;
  readonly options: ActionOptions;
}

function answerOf({ stepId, attempt, to }: Decision): Answer {
  return { stepId, attempt, as: to === "notApplied" ? to : "done" in to ? "completed" : "failed" };
}

/** Sends the resolution as mail. The owner of the run journals the mail together with its consequences. */
async function sendToRun(store: Store, of: RunRecord, decision: Decision): Promise<ActionResult & Answer> {
  const { creator } = of;
  const { runId: run, stepId, attempt, to, by, options } = decision;
  const retries = await retriesOf(store, run);
  const payload = JSON.stringify({ attempt, to, by, ...(retries > 0 ? { retries } : {}) } satisfies ResolutionMail);
  const mail = { kind: "resolve", about: stepId, payload, key: resolutionKey(stepId, attempt, retries) } as const;
  const change = { kind: "send", mail } as const;
  try {
    return await perform({ store, action: "resolve", run, expect: { creator }, change, answer: answerOf(decision), options });
  } catch (error) {
    if (!(error instanceof ActionRefusedError)) throw error;
    if (error.because === "ended") return await resolveAfterEnd(store, of, decision);
    throw error.because === "alreadySent" ? notUnknown(decision, "another caller has resolved the step") : error;
  }
}

async function retriesOf(store: Store, run: string): Promise<number> {
  const { events } = await readEvents(store, run);
  return events.filter(({ type }) => type === "retry").length;
}

/** The run goes on from the failure, with the result in its place. */
async function resolveFailed(store: Store, run: RunRecord, decision: Decision): Promise<ActionResult & Answer> {
  const { stepId, attempt, to, by, options } = decision;
  if (to === "notApplied" || "fail" in to) throw notUnknown(decision, "it has failed; give it a result, or run it again with retryRun");
  const failed = await readFailedRun(store, run);
  const at = await timeOf(store);
  const more = ([id]: readonly string[]): Event[] => (id === undefined ? [] : [resolvedEvent({ id, at, attempt, to, by })]);
  const { expect, change } = reopening(store, failed, { at, steps: [stepId], more: ({ retry }) => more(retry.cuts) });
  return await perform({ store, action: "resolve", run: run.id, expect, change, answer: answerOf(decision), options });
}

async function resolveAfterEnd(store: Store, { creator }: RunRecord, decision: Decision): Promise<ActionResult & Answer> {
  const { runId, stepId, attempt, to, by, options } = decision;
  const lineage = await readLineage(store, runId);
  const at = await timeOf(store);
  const decide = ({ doubts }: EndedJournal): readonly Event[] => {
    const [id] = [...doubts].find(([call, of]) => of === attempt && lineage.stepIdOf(runId, call) === stepId) ?? [];
    if (id === undefined) throw notUnknown(decision, "its outcome is known, or this run has no such step");
    return [resolvedEvent({ id, at, attempt, to, by })];
  };
  const log = logEntryOf({ action: "resolve", run: runId, answer: answerOf(decision), options });
  const result = { ...answerOf(decision), runId, actionId: log.id, repeated: false, dryRun: options.dryRun ?? false };
  if (result.dryRun) return result;
  const send: Parameters<typeof writeAfterEnd>[1]["send"] = (operation) => sendSafely(store, operation);
  const written = await writeAfterEnd(store, { id: runId, creator, send, decide, log });
  // The run was retried meanwhile, and the step may still be unknown, or not; or it was deleted.
  return written === true ? result : await resolve(store, decision, creator);
}

function notUnknown({ runId, stepId, attempt }: Decision, found: string): NotUnknownError {
  return new NotUnknownError({ scope: runId, key: stepId, attempt }, found);
}
