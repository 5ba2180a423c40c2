import { InvalidInputError } from "../../../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../../../core/errors/known-options.js";
import type { RunRecord, RunStatus } from "../../../core/runs/run.js";
import { needsPerson, orderOf, positionOf, type RunOrder, type RunPosition } from "../../../core/runs/search/filter.js";
import { pathOf } from "../../../core/runs/search/served.js";
import type { Store } from "../../../core/store/store.js";
import { type Attributes, decodeAttributes } from "../../../core/values/attributes.js";
import { errorFactsOf } from "../../../core/values/stored-error.js";
import { loadAside } from "../../journal/aside.js";
import { readingStore } from "../../process/ambient-store.js";
import { warnIfOverdue } from "../../waiting/overdue.js";
import type { InStore } from "../in-store.js";
import { checkLimit, filterOf, type RunSearch, searchNames } from "./filters.js";

/** Filters and paging of {@link listRuns}. */
export interface ListRunsOptions extends InStore, RunSearch {
  /** Page size, from 1 to 1000. Default 100. */
  readonly limit?: number;
  /** The `cursor` of the previous page. */
  readonly cursor?: string;
}

/** The error of a failed run. */
export interface RunErrorSummary {
  readonly name: string;
  readonly code: string | undefined;
  readonly message: string;
}

/** One run in the list of {@link listRuns}. */
export interface RunSummary {
  readonly id: string;
  /** Stored name of the workflow. */
  readonly workflow: string;
  readonly status: RunStatus;
  /** Why the run cannot continue, if its status is unknown, diverged or parked; of a cancelled run, why its cleanup did not end. */
  readonly trouble: string | undefined;
  readonly createdAt: Date;
  readonly startedAt: Date | undefined;
  readonly completedAt: Date | undefined;
  /** Id of the worker that executes the run now. */
  readonly owner: string | undefined;
  readonly parentId: string | undefined;
  /** The tenant that the run belongs to. "": none. */
  readonly scope: string;
  /** Attributes of `start` and `setAttributes`. */
  readonly attributes: Attributes;
  /** Why the run failed, if its status is failed. */
  readonly error: RunErrorSummary | undefined;
  /** Number of steps of an ended run whose outcome is still unknown. `resolveStep` settles them; the run is not purged before. */
  readonly unsettled: number;
  /** The run needs an operator: the outcome of a step is unknown, the run diverged or is parked, or it has ended and its cleanup did not. */
  readonly needsPerson: boolean;
}

/** One page of {@link listRuns}. */
export interface RunPage {
  readonly items: readonly RunSummary[];
  /** Undefined on the last page. */
  readonly cursor: string | undefined;
}

const listNames: OptionNames<ListRunsOptions> = { ...searchNames, store: true, limit: true, cursor: true };

/**
 * Lists runs, newest first; with `endedAfter` or `endedBefore` the last ended first; with `idPrefix` by id. Throws InvalidInputError if an option is
 * invalid, or if no index serves the combination of filters (docs/reference/searches.md).
 *
 * @example
 * const { items, cursor } = await listRuns({ workflow: "order", status: "failed" });
 */
export async function listRuns(options: ListRunsOptions = {}): Promise<RunPage> {
  knownOptions("listRuns", options, listNames);
  const { store: given, limit = 100, cursor } = options;
  checkLimit(limit);
  const filter = filterOf("listRuns", options);
  pathOf(filter);
  const order = orderOf(filter);
  const after = cursor === undefined ? undefined : readCursor(cursor, order);
  const store = await readingStore(given);
  const runs = await store.runs.list({ ...filter, ...(after === undefined ? {} : { after }), limit });
  warnIfOverdue(store, runs);
  const last = runs.at(-1);
  const next = last && runs.length === limit ? writeCursor(positionOf(last, order), order) : undefined;
  return { items: await Promise.all(runs.map((run) => summaryOf(store, run))), cursor: next };
}

/** A cursor names the order, so that it is not used for a list in another one. Those by creation have no letter, as in version 0.1.0. */
const letters: Readonly<Record<RunOrder, string>> = { created: "", ended: "e", id: "i" };

export function writeCursor({ at, id }: RunPosition, order: RunOrder): string {
  return `${letters[order]}${at}:${id}`;
}

export function readCursor(cursor: unknown, order: RunOrder): RunPosition {
  const [, letter, at, id] = (typeof cursor === "string" && /^([ei]?)(\d+):([\s\S]+)$/.exec(cursor)) || [];
  if (letter === undefined || at === undefined || id === undefined)
    throw new InvalidInputError("cursor", "is not a cursor that this function returned");
  if (letter !== letters[order])
    throw new InvalidInputError("cursor", "is of a list with other filters; use it with the filters of its list");
  return { at: Number(at), id };
}

export async function summaryOf(store: Store, run: RunRecord): Promise<RunSummary> {
  const date = (at: number | null) => (at === null ? undefined : new Date(at));
  return {
    id: run.id,
    workflow: run.workflow,
    status: run.status,
    trouble: run.trouble ?? undefined,
    createdAt: new Date(run.createdAt),
    startedAt: date(run.startedAt),
    completedAt: date(run.endedAt),
    owner: run.owner ?? undefined,
    parentId: run.parent ?? undefined,
    scope: run.scope,
    attributes: decodeAttributes(run.attributes),
    error: run.status === "failed" ? await errorOf(store, run) : undefined,
    unsettled: run.unsettled,
    needsPerson: needsPerson(run),
  };
}

/** Undefined if the error cannot be read: the run was removed meanwhile, or it was ended without one. */
async function errorOf(store: Store, { id, output }: RunRecord): Promise<RunErrorSummary | undefined> {
  const text = await loadAside(store, id, output).catch(() => null);
  const facts = text === null ? undefined : errorFactsOf(text);
  return facts && { ...facts, code: facts.code ?? undefined };
}
