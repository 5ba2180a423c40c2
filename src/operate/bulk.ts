import { randomUUID } from "node:crypto";
import { InvalidInputError, OnceflowError } from "../core/errors/errors.js";
import { checkName } from "../core/ledger/key.js";
import { hasEnded, type RunStatus } from "../core/runs/run.js";
import { sha256 } from "../core/values/canonical.js";

/**
 * One action on many runs: those that a filter of the list chooses. The runs are taken page by page from the list, newest first, and one page is one batch. The id of the
 * action on a run derives from the id of the bulk action and that of the run, so a bulk action that is repeated, after a crash or a lost reply, acts on no run
 * a second time. Works on a store and through the HTTP API alike: both are a {@link BulkTarget}.
 */
export type BulkAction = "cancel" | "terminate" | "pause" | "resume" | "wake" | "retry" | "delete";

/** A run in the list. */
interface ListedRun {
  readonly id: string;
  readonly status: RunStatus;
}

/** Where the runs are. */
export interface BulkTarget {
  list(page: { readonly limit: number; readonly cursor?: string }): Promise<{
    readonly items: readonly ListedRun[];
    readonly cursor?: string | undefined;
  }>;
  act(
    run: string,
    options: { readonly actionId: string; readonly dryRun: boolean; readonly ifStatus?: RunStatus },
  ): Promise<{ readonly repeated: boolean }>;
}

export interface BulkRequest {
  readonly action: BulkAction;
  /** The status that the filter names: a run that has another one meanwhile is left alone. */
  readonly status?: RunStatus | undefined;
  /** Identifies the bulk action. The same id again continues or repeats it. Default: a new random id. */
  readonly actionId?: string | undefined;
  /** Where an earlier part of the bulk action stopped. */
  readonly cursor?: string | undefined;
  /** Stop after this number of runs of the list. Default: no limit. */
  readonly max?: number | undefined;
  /** Runs in a batch, from 1 to 1000. Default 100. */
  readonly batch?: number | undefined;
  readonly dryRun?: boolean | undefined;
  /** Stops after the current batch. */
  readonly signal?: AbortSignal | undefined;
  /** Called before the first batch: what a caller needs to continue after a crash. */
  readonly onBegin?: ((actionId: string) => void) | undefined;
  /** Called after each batch. */
  readonly onBatch?: ((progress: BulkProgress) => void) | undefined;
}

/** Numbers of runs. */
interface BulkCounts {
  /** Runs of the list that were looked at. */
  readonly listed: number;
  readonly done: number;
  /** An earlier part of the same bulk action has acted on them. */
  readonly repeated: number;
  /** They had another status when the action was written, or had been deleted. */
  readonly changed: number;
  /** The action means nothing for their status, such as the cancellation of an ended run. */
  readonly skipped: number;
  readonly refused: number;
}

export interface BulkProgress extends BulkCounts {
  readonly actionId: string;
  /** To continue after this batch; undefined after the last one. */
  readonly cursor: string | undefined;
}

export interface BulkResult extends BulkProgress {
  readonly dryRun: boolean;
  /** The first 100 refusals. */
  readonly refusals: readonly { readonly runId: string; readonly code: string; readonly message: string }[];
  /** Why the bulk action ended before the end of the list. The batch at `cursor` may be done in part; to do it again repeats nothing. */
  readonly interrupted: unknown;
}

const refusalsMax = 100;
/** Actions that are sent at the same time. */
const parallelMax = 10;

/** Whether an action means anything for a run with this status. */
function isMeantFor(action: BulkAction, status: RunStatus): boolean {
  if (action === "retry") return status === "failed";
  return hasEnded(status) === (action === "delete");
}

/** The id of a bulk action's action on one run. */
export const bulkActionId = (actionId: string, run: string): string => sha256(`${actionId}\0${run}`);

/** Runs a bulk action. Throws InvalidInputError for a wrong option. */
export async function actOnAll(target: BulkTarget, request: BulkRequest): Promise<BulkResult> {
  const { action, status, actionId = randomUUID(), max = Number.POSITIVE_INFINITY, batch = 100, dryRun = false, signal } = request;
  checkName("key", actionId);
  if (!Number.isInteger(batch) || batch < 1 || batch > 1000) throw new InvalidInputError("batch", "must be a whole number from 1 to 1000");
  const counts = { listed: 0, done: 0, repeated: 0, changed: 0, skipped: 0, refused: 0 };
  const refusals: { runId: string; code: string; message: string }[] = [];
  let cursor = request.cursor;
  const resultOf = (interrupted: unknown): BulkResult => ({ actionId, dryRun, ...counts, cursor, refusals, interrupted });
  const act = async ({ id, status: now }: ListedRun): Promise<void> => {
    if (!isMeantFor(action, now)) return void counts.skipped++;
    try {
      const options = { actionId: bulkActionId(actionId, id), dryRun, ...(status === undefined ? {} : { ifStatus: status }) };
      counts[(await target.act(id, options)).repeated ? "repeated" : "done"]++;
    } catch (error) {
      const kind = kindOf(error);
      counts[kind]++;
      if (kind === "refused" && refusals.length < refusalsMax) refusals.push({ runId: id, ...textOf(error) });
    }
  };
  request.onBegin?.(actionId);
  for (;;) {
    if (signal?.aborted) return resultOf("stopped");
    let page: Awaited<ReturnType<BulkTarget["list"]>>;
    try {
      page = await target.list({ limit: Math.min(batch, max - counts.listed), ...(cursor === undefined ? {} : { cursor }) });
      await inParallel(page.items, act);
    } catch (error) {
      if (error instanceof InvalidInputError) throw error;
      return resultOf(error);
    }
    counts.listed += page.items.length;
    cursor = page.cursor;
    request.onBatch?.({ actionId, ...counts, cursor });
    if (cursor === undefined) return resultOf(undefined);
    if (counts.listed >= max) return resultOf("limit");
  }
}

/** Waits for all, also if one fails: nothing of a batch is still going on when its error is reported. */
async function inParallel<Item>(items: readonly Item[], work: (item: Item) => Promise<void>): Promise<void> {
  const left = items.values();
  const worker = async () => {
    for (const item of left) await work(item);
  };
  const ends = await Promise.allSettled(Array.from({ length: Math.min(parallelMax, items.length) }, worker));
  for (const end of ends) if (end.status === "rejected") throw end.reason;
}

/** What an error says about the run. Other errors, such as a store that cannot be reached, end the bulk action. */
function kindOf(error: unknown): "changed" | "refused" {
  if (!(error instanceof OnceflowError)) throw error;
  switch (error.code) {
    case "STALE":
    case "RUN_NOT_FOUND":
      return "changed";
    case "ACTION_REFUSED":
    case "NOT_UNKNOWN":
      return "refused";
    default:
      throw error;
  }
}

function textOf(error: unknown): { readonly code: string; readonly message: string } {
  const { code, message } = error as OnceflowError;
  return { code, message };
}
