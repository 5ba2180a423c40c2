import { InvalidInputError } from "../../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../../core/errors/known-options.js";
import { duration } from "../../core/ledger/options.js";
import { checkText } from "../../core/runs/log.js";
import { hasEnded } from "../../core/runs/run.js";
import type { Store } from "../../core/store/store.js";
import { cancelPayload, cleanupMsDefault } from "../journal/mail/cancel-request.js";
import { decisionOn, endWithoutCode } from "../worker/end-without-code.js";
import { type ActionResult, type HandleActionOptions, handleActionNames } from "./actions/action.js";
import { type Mailed, mailRun } from "./actions/mail-run.js";

/** Options of {@link Run.cancel}. */
export interface CancelOptions extends HandleActionOptions {
  /** Why the run is cancelled, also for the operator log. The code gets it as `reason` of the CancelledError. */
  readonly reason?: string;
  /** How long the code may clean up, counted from when it learns of the cancellation. Default 15 min. */
  readonly cleanupMs?: number;
}

/** Result of {@link Run.cancel} and {@link Run.terminate}. */
export interface CancelResult extends ActionResult {
  /** ended: the run has ended, now or before. requested: the request is durable, and the run ends when its code has cleaned up. */
  readonly state: "ended" | "requested";
  /** No live worker has the workflow of the run, so no code cleans up now. */
  readonly noWorker: boolean;
  /** Without a worker: when the run ends, unless a worker executes its code before. */
  readonly endsBy?: Date;
}

const cancelNames: OptionNames<CancelOptions> = { ...handleActionNames, cleanupMs: true };

/** The code may clean up. */
export async function cancelRun(store: Store, id: string, options: CancelOptions): Promise<CancelResult> {
  if (typeof options !== "object" || options === null) throw new InvalidInputError("run.cancel", "takes options: { reason, cleanupMs }");
  knownOptions("run.cancel", options, cancelNames);
  const { reason, cleanupMs = cleanupMsDefault } = options;
  if (reason !== undefined) checkText("reason", reason);
  duration("cleanupMs", cleanupMs);
  const payload = cancelPayload({ reason, cleanupMs });
  return await requested(
    store,
    id,
    await mailRun(store, id, { action: "cancel", kind: "cancel", payload, stopAfterMs: cleanupMs, options }),
  );
}

/** The code gets no time for cleaning up. */
export async function terminateRun(store: Store, id: string, options: HandleActionOptions): Promise<CancelResult> {
  knownOptions("run.terminate", options, handleActionNames);
  return await requested(store, id, await mailRun(store, id, { action: "terminate", kind: "cancel", payload: null, options }));
}

/**
 * If no live worker has the workflow, this process ends the run, unless its code has something to clean up. A worker that has the
 * workflow handles the mail itself, so that running steps are aborted and get their grace period.
 */
async function requested(store: Store, id: string, { state, ...result }: Mailed): Promise<CancelResult> {
  if (state === "ended") return { ...result, state, noWorker: false };
  const run = await store.runs.read(id);
  if (run === undefined || hasEnded(run.status)) return { ...result, state: "ended", noWorker: false };
  const workers = await store.runs.workers();
  const noWorker = !workers.some(({ live, workflows }) => live && workflows.includes(run.workflow));
  if (!noWorker || result.dryRun) return { ...result, state: "requested", noWorker };
  const journal = await wholeJournal(store, id);
  // The time of the mail is not after the time of the store.
  const mail = await store.runs.mail(id, run.consumed);
  if (decisionOn({ run, journal, mail }, mail.at(-1)?.at ?? 0).ends) await endWithoutCode(store, id);
  const after = await store.runs.read(id);
  if (after === undefined || hasEnded(after.status)) return { ...result, state: "ended", noWorker: true };
  return { ...result, state: "requested", noWorker: true, ...(after.stopAt === null ? {} : { endsBy: new Date(after.stopAt) }) };
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
