import { InvalidInputError } from "../../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../../core/errors/known-options.js";
import { hasEnded, isSetAside, type RunStatus } from "../../core/runs/run.js";
import type { Store } from "../../core/store/store.js";
import { RunNotFoundError } from "../define/errors.js";
import { readOpenRequests } from "../journal/history/read-open-requests.js";
import { type ActionResult, firstAnswer, type HandleActionOptions, handleActionNames } from "./actions/action.js";
import { mailRun } from "./actions/mail-run.js";
import type { StopSleepOptions, StopSleepResult } from "./stop-sleep.js";

/** Options of {@link Run.wakeUp}. */
export interface WakeOptions extends StopSleepOptions, HandleActionOptions {}

/** A pending sleep of a run. */
export interface RunSleep {
  /** Id of the sleep, the same at every replay: "sleep#0" is the first sleep of the run. */
  readonly id: string;
  readonly until: Date;
}

const wakeUpNames: OptionNames<WakeOptions> = { ...handleActionNames, correlationIds: true };

export type WakeResult = ActionResult & StopSleepResult;

/**
 * Ends sleeps. The mail names them, because the run may read it when the code is already in a later sleep, which it must not end: a request may be sent
 * twice, or arrive late.
 */
export async function wakeRun(store: Store, id: string, options: WakeOptions): Promise<WakeResult> {
  // Check first: a misspelt option must not end all sleeps.
  knownOptions("run.wakeUp", options, wakeUpNames);
  if (options.correlationIds !== undefined) checkIds(options.correlationIds);
  const { runId, actionId, repeated, dryRun, stoppedCount } = await firstAnswer<StopSleepResult>(
    { store, action: "wake", run: id, options },
    () => wake(store, id, options),
  );
  return { runId, actionId, repeated, dryRun, stoppedCount };
}

async function wake(store: Store, id: string, { correlationIds, ...options }: WakeOptions): Promise<WakeResult> {
  const run = await store.runs.read(id);
  if (run === undefined) throw new RunNotFoundError(id);
  // The code of a run that was set aside does not execute: it is only tried again.
  const sleeping =
    correlationIds === undefined && isSetAside(run.status) ? [] : (await sleepsOf(store, id, run.status)).map((sleep) => sleep.id);
  const stopped = correlationIds === undefined ? sleeping : sleeping.filter((each) => correlationIds.includes(each));
  const answer = { stoppedCount: stopped.length };
  // There is nothing that the run could do with the mail.
  if (correlationIds !== undefined && stopped.length === 0)
    return { ...answer, runId: id, actionId: options.actionId ?? "", repeated: false, dryRun: options.dryRun ?? false };
  return await mailRun(store, id, { action: "wake", kind: "wake", payload: JSON.stringify(stopped), answer, options });
}

/** The pending sleeps, ordered by their end. */
export async function sleepsOf(store: Store, id: string, status: RunStatus): Promise<readonly RunSleep[]> {
  if (hasEnded(status)) return [];
  const { sleeps } = (await readOpenRequests(store, id))?.open ?? { sleeps: [] };
  return [...sleeps].map(([sleep, until]) => ({ id: sleep, until: new Date(until) })).sort((a, b) => a.until.getTime() - b.until.getTime());
}

function checkIds(ids: unknown): void {
  if (Array.isArray(ids) && ids.length > 0 && ids.every((id) => typeof id === "string")) return;
  throw new InvalidInputError("correlationIds", "must be a non-empty array of sleep ids; omit it to end all sleeps of the run");
}
