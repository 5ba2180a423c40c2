import { hasEnded, type RunRecord, type RunStatus } from "../run.js";

/** Which runs a search finds. Times are milliseconds on the store's clock; "after" includes the time itself, "before" does not. */
export interface RunFilter {
  readonly idPrefix?: string;
  /** Stored name of the workflow. */
  readonly workflow?: string;
  readonly status?: RunStatus;
  readonly parent?: string;
  /** Not "": there is no index of the runs without a scope. */
  readonly scope?: string;
  readonly createdAfter?: number;
  readonly createdBefore?: number;
  readonly endedAfter?: number;
  readonly endedBefore?: number;
  readonly errorName?: string;
  readonly errorCode?: string;
  /** `text`: the stored form of the value, see `attributeText`. */
  readonly attribute?: { readonly name: string; readonly text: string };
  readonly needsPerson?: true;
}

/** How many runs have each status. Without a number: none. */
export type RunCounts = Readonly<Partial<Record<RunStatus, number>>>;

/** Where a page ends: the time by which the list is ordered, and the id, which orders runs of the same time. */
export interface RunPosition {
  readonly at: number;
  readonly id: string;
}

/** By creation or by end, newest first; or by id, in ascending order. */
export type RunOrder = "created" | "ended" | "id";

export function orderOf({ idPrefix, endedAfter, endedBefore }: RunFilter): RunOrder {
  if (idPrefix !== undefined) return "id";
  return endedAfter === undefined && endedBefore === undefined ? "created" : "ended";
}

export function positionOf({ id, createdAt, endedAt }: Pick<RunRecord, "id" | "createdAt" | "endedAt">, order: RunOrder): RunPosition {
  return { id, at: order === "created" ? createdAt : order === "ended" ? (endedAt ?? 0) : 0 };
}

/** Negative if `a` comes before `b` in a list. */
export function comparePositions(a: RunPosition, b: RunPosition, order: RunOrder): number {
  if (order === "id") return a.id < b.id ? -1 : a.id > b.id ? 1 : 0;
  return b.at - a.at || (a.id < b.id ? 1 : a.id > b.id ? -1 : 0);
}

/** The runs of several lists, as one list. Each is in the given order. */
export function mergeRuns(lists: readonly (readonly RunRecord[])[], order: RunOrder, limit: number): RunRecord[] {
  const all = lists.flat();
  if (lists.length > 1) all.sort((a, b) => comparePositions(positionOf(a, order), positionOf(b, order), order));
  return all.slice(0, limit);
}

/**
 * Whether an operator has to look at the run: the outcome of a step is unknown, the run diverged or is parked, or it has ended and its cleanup did
 * not. Indexes of the stores hold the runs with a trouble or an unsettled step, which are a few more: changing this may need a migration.
 */
export function needsPerson({ status, trouble, unsettled }: Pick<RunRecord, "status" | "trouble" | "unsettled">): boolean {
  if (unsettled > 0) return true;
  return trouble !== null && (hasEnded(status) || status === "unknown" || status === "diverged" || status === "parked");
}

/** Whether the run matches all filters. What the indexes of the stores find must be the same. */
export function matches(run: RunRecord, filter: RunFilter): boolean {
  const { idPrefix, workflow, status, parent, scope, errorName, errorCode, attribute } = filter;
  const { createdAfter, createdBefore, endedAfter, endedBefore } = filter;
  if (idPrefix !== undefined && !run.id.startsWith(idPrefix)) return false;
  if (workflow !== undefined && run.workflow !== workflow) return false;
  if (status !== undefined && run.status !== status) return false;
  if (parent !== undefined && run.parent !== parent) return false;
  if (scope !== undefined && run.scope !== scope) return false;
  if (errorName !== undefined && run.errorName !== errorName) return false;
  if (errorCode !== undefined && run.errorCode !== errorCode) return false;
  if (!isWithin(run.createdAt, createdAfter, createdBefore)) return false;
  if ((endedAfter !== undefined || endedBefore !== undefined) && !isWithin(run.endedAt, endedAfter, endedBefore)) return false;
  if (attribute !== undefined && !hasAttribute(run, attribute)) return false;
  return filter.needsPerson === undefined || needsPerson(run);
}

function isWithin(at: number | null, after: number | undefined, before: number | undefined): boolean {
  return at !== null && at >= (after ?? Number.NEGATIVE_INFINITY) && at < (before ?? Number.POSITIVE_INFINITY);
}

function hasAttribute({ attributes }: RunRecord, { name, text }: NonNullable<RunFilter["attribute"]>): boolean {
  const stored = attributes === null ? {} : (JSON.parse(attributes) as Record<string, string>);
  return Object.hasOwn(stored, name) && stored[name] === text;
}

/** Counts runs that were read, up to `max` in each status. */
export function countByStatus(runs: Iterable<Pick<RunRecord, "status">>, max: number): RunCounts {
  const counts: Partial<Record<RunStatus, number>> = {};
  for (const { status } of runs) counts[status] = Math.min(max, (counts[status] ?? 0) + 1);
  return counts;
}

/** A text that is greater than every text with this prefix. */
export function afterPrefix(prefix: string): string {
  return `${prefix}\u{10FFFF}\u{10FFFF}`;
}
