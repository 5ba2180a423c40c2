import { knownOptions, type OptionNames } from "../../core/errors/known-options.js";
import { InvalidInputError } from "../../core/errors/errors.js";
import { duration } from "../../core/ledger/options.js";
import { hasEnded } from "../../core/runs/run.js";
import type { Store } from "../../core/store/store.js";
import { checkStorable } from "../../core/values/storable-text.js";
import { cancelPayload, cleanupMsDefault } from "../journal/cancel-request.js";
import { decisionOn, endWithoutCode } from "../worker/end-without-code.js";
import { actOnRun } from "./act-on-run.js";

/** Options of {@link Run.cancel}. */
export interface CancelOptions {
  /** Why the run is cancelled. The code gets it as `reason` of the CancelledError. */
  readonly reason?: string;
  /** How long the code may clean up, counted from when it learns of the cancellation. Default 15 min. */
  readonly cleanupMs?: number;
}

/** Result of {@link Run.cancel} and {@link Run.terminate}. */
export interface CancelResult {
  /** ended: the run has ended, now or before. requested: the request is durable, and the run ends when its code has cleaned up. */
  readonly state: "ended" | "requested";
  /** No live worker has the workflow of the run, so no code cleans up now. */
  readonly noWorker: boolean;
  /** Without a worker: when the run ends, unless a worker executes its code before. */
  readonly endsBy?: Date;
}

const cancelNames: OptionNames<CancelOptions> = { reason: true, cleanupMs: true };

/** The code may clean up. */
export async function cancelRun(store: Store, id: string, options: CancelOptions): Promise<CancelResult> {
  if (typeof options !== "object" || options === null) throw new InvalidInputError("run.cancel", "takes options: { reason, cleanupMs }");
  knownOptions("run.cancel", options, cancelNames);
  const { reason, cleanupMs = cleanupMsDefault } = options;
  if (reason !== undefined && (typeof reason !== "string" || reason === ""))
    throw new InvalidInputError("reason", "must be a non-empty string");
  if (reason !== undefined) checkStorable("reason", reason);
  duration("cleanupMs", cleanupMs);
  const request = { action: "cancel", kind: "cancel", payload: cancelPayload({ reason, cleanupMs }), reason } as const;
  return await requested(store, id, await actOnRun(store, id, { ...request, stopAfterMs: cleanupMs }));
}

/** The code gets no time for cleaning up. */
export async function terminateRun(store: Store, id: string): Promise<CancelResult> {
  return await requested(store, id, await actOnRun(store, id, { action: "terminate", kind: "cancel", payload: null }));
}

/**
 * If no live worker has the workflow, this process ends the run, unless its code has something to clean up. A worker that has the
 * workflow handles the mail itself, so that running steps are aborted and get their grace period.
 */
async function requested(store: Store, id: string, sent: "sent" | "ended"): Promise<CancelResult> {
  if (sent === "ended") return { state: "ended", noWorker: false };
  const run = await store.runs.read(id);
  if (run === undefined || hasEnded(run.status)) return { state: "ended", noWorker: false };
  const workers = await store.runs.workers();
  if (workers.some(({ live, workflows }) => live && workflows.includes(run.workflow))) return { state: "requested", noWorker: false };
  const journal = await wholeJournal(store, id);
  // The time of the mail is not after the time of the store.
  const mail = await store.runs.mail(id, run.consumed);
  if (decisionOn({ run, journal, mail }, mail.at(-1)?.at ?? 0).ends) await endWithoutCode(store, id);
  const after = await store.runs.read(id);
  if (after === undefined || hasEnded(after.status)) return { state: "ended", noWorker: true };
  return { state: "requested", noWorker: true, ...(after.stopAt === null ? {} : { endsBy: new Date(after.stopAt) }) };
}

const pageMax = 1000;

async function wholeJournal(store: Store, id: string) {
  const journal = [...(await store.runs.journal(id, 0, pageMax))];
  for (let read = journal.length; read === pageMax; ) {
    const page = await store.runs.journal(id, journal.at(-1)?.seq ?? 0, pageMax);
    journal.push(...page);
    read = page.length;
  }
  return journal;
}
