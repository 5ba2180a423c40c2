import { InvalidInputError } from "../../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../../core/errors/known-options.js";
import { checkName } from "../../core/ledger/key.js";
import { whole } from "../../core/ledger/key-ref.js";
import type { RunBackend } from "../../core/runs/operation.js";
import { hasEnded, type RunRecord, type RunStatus, runStatuses, type WorkerRecord } from "../../core/runs/run.js";
import type { RunPosition } from "../../core/runs/search/filter.js";
import { readingStore } from "../process/ambient-store.js";
import type { InStore } from "./in-store.js";

/** Options of {@link runsWithoutWorker}. */
export interface RunsWithoutWorkerOptions extends InStore {
  /** Only runs of this tenant. Default: of all. */
  readonly scope?: string;
  /** Page size, from 1 to 1000. Default 100. */
  readonly limit?: number;
  /** The `cursor` of the previous page. */
  readonly cursor?: string;
}

/** An open run that no live worker can execute. */
export interface RunWithoutWorker {
  readonly id: string;
  /** Stored name of the workflow. */
  readonly workflow: string;
  readonly status: RunStatus;
  readonly createdAt: Date;
  readonly parentId: string | undefined;
  /** Why no worker executes the run, and what to do. */
  readonly reason: string;
}

/** One page of {@link runsWithoutWorker}. */
export interface RunWithoutWorkerPage {
  readonly items: readonly RunWithoutWorker[];
  /** Undefined on the last page. A page may have fewer items than `limit`, even none, and still have a cursor. */
  readonly cursor: string | undefined;
}

const optionNames: OptionNames<RunsWithoutWorkerOptions> = { store: true, scope: true, limit: true, cursor: true };

const openStatuses: readonly RunStatus[] = runStatuses.filter((status) => !hasEnded(status));
/** Maximum number of workflows without a worker that are looked at for one page: each is a few reads. */
const workflowsMax = 100;

/**
 * Lists open runs whose workflow no live worker has: by the name of the workflow, then by status, then newest first. Each page costs a few index reads for each
 * workflow, however many runs there are. Throws InvalidInputError if an option is invalid, and ConfigurationError if the store has no runs.
 *
 * @example
 * const { items } = await runsWithoutWorker();
 * for (const { id, reason } of items) console.log(id, reason);
 */
export async function runsWithoutWorker(options: RunsWithoutWorkerOptions = {}): Promise<RunWithoutWorkerPage> {
  knownOptions("runsWithoutWorker", options, optionNames);
  const { store: given, scope, limit = 100, cursor } = options;
  if (scope !== undefined) checkScope(scope);
  whole("limit", limit, 1, 1000);
  const start = cursor === undefined ? ({ workflow: "" } as const) : placeOf(cursor);
  const { runs } = await readingStore(given);
  const workers = await runs.workers();
  const served = new Set(workers.filter(({ live }) => live).flatMap(({ workflows }) => workflows));
  const items: RunWithoutWorker[] = [];
  let place: Place = start;
  for (let looked = 0; looked < workflowsMax; ) {
    if (place.status === undefined) {
      const next = await nextUnserved(runs, place.workflow, served);
      if (next === undefined) return { items, cursor: undefined };
      place = { workflow: next, status: openStatuses[0] as RunStatus };
    }
    const { workflow, status, after } = place;
    // A worker that has the workflow may have started since the last page.
    const wanted = served.has(workflow) ? 0 : limit - items.length;
    const within = { ...(scope === undefined ? {} : { scope }), ...(after === undefined ? {} : { after }) };
    const page = wanted === 0 ? [] : await runs.list({ workflow, status, ...within, limit: wanted });
    const reason = reasonFor(workflow, workers);
    for (const run of page) items.push(itemOf(run, reason));
    const last = page.at(-1);
    if (last !== undefined && items.length === limit)
      return { items, cursor: cursorOf({ ...place, after: { at: last.createdAt, id: last.id } }) };
    const nextStatus = openStatuses[openStatuses.indexOf(status) + 1];
    if (nextStatus === undefined) looked += 1;
    place = nextStatus === undefined ? { workflow } : { workflow, status: nextStatus };
  }
  return { items, cursor: cursorOf(place) };
}

function checkScope(scope: unknown): void {
  if (scope === "") throw new InvalidInputError("scope", "must not be empty; leave it out to find the runs of all scopes");
  checkName("scope", scope);
}

/** Where a page begins. Without a status: behind all runs of the workflow. */
type Place =
  | { readonly workflow: string; readonly status?: undefined; readonly after?: undefined }
  | { readonly workflow: string; readonly status: RunStatus; readonly after?: RunPosition };

/** Names that are read at a time. */
const namesMax = 100;

async function nextUnserved(runs: RunBackend, after: string, served: ReadonlySet<string>): Promise<string | undefined> {
  for (let last = after; ; ) {
    const names = await runs.workflows(last, namesMax);
    const unserved = names.find((name) => !served.has(name));
    const end = names.at(-1);
    if (unserved !== undefined || names.length < namesMax || end === undefined) return unserved;
    last = end;
  }
}

function itemOf({ id, workflow, status, createdAt, parent }: RunRecord, reason: string): RunWithoutWorker {
  return { id, workflow, status, createdAt: new Date(createdAt), parentId: parent ?? undefined, reason };
}

function reasonFor(workflow: string, workers: readonly WorkerRecord[]): string {
  const live = workers.filter((worker) => worker.live).length;
  const former = workers.find((worker) => !worker.live && worker.workflows.includes(workflow));
  const now = live === 0 ? "there is no live worker" : `no live worker (of ${live}) has the workflow "${workflow}"`;
  const seen =
    former === undefined ? "" : `; the worker ${former.id} had it, and was last seen at ${new Date(former.seenAt).toISOString()}`;
  return `${now}${seen}. Start a worker that defines the workflow "${workflow}", or cancel the run.`;
}

function cursorOf({ workflow, status, after }: Place): string {
  const parts = status === undefined ? [workflow] : [workflow, status, ...(after === undefined ? [] : [after.at, after.id])];
  return Buffer.from(JSON.stringify(parts)).toString("base64url");
}

function placeOf(cursor: unknown): Place {
  const [workflow, status, at, id, ...more] = partsOf(cursor);
  const isStatus = openStatuses.includes(status as RunStatus);
  if (typeof workflow === "string" && more.length === 0) {
    if (status === undefined) return { workflow };
    if (isStatus && at === undefined) return { workflow, status: status as RunStatus };
    if (isStatus && Number.isSafeInteger(at) && typeof id === "string")
      return { workflow, status: status as RunStatus, after: { at: at as number, id } };
  }
  throw new InvalidInputError("cursor", "is not a cursor that runsWithoutWorker returned");
}

function partsOf(cursor: unknown): readonly unknown[] {
  try {
    const parts: unknown = JSON.parse(Buffer.from(String(cursor), "base64url").toString());
    return Array.isArray(parts) ? parts : [];
  } catch {
    return [];
  }
}
