import type { HookListQuery, RunListQuery } from "../../../core/runs/operation.js";
import { type HookRecord, type RunRecord, type RunStatus, runStatuses } from "../../../core/runs/run.js";
import {
  afterPrefix,
  countByStatus,
  mergeRuns,
  needsPerson,
  orderOf,
  type RunCounts,
  type RunFilter,
  type RunOrder,
  type RunPosition,
} from "../../../core/runs/search/filter.js";
import { pathOf } from "../../../core/runs/search/served.js";
import type { Collections } from "../layout.js";
import { type RunDocument, runAndNow, termOf, toHook } from "./document.js";
import { findRun, withInputs } from "./load.js";

type Condition = Record<string, unknown>;

/** Each condition has an index that is in the order of the list. A list is put together from one or several. */
export async function listRuns(collections: Collections, query: RunListQuery): Promise<RunRecord[]> {
  const { limit, after } = query;
  const order = orderOf(query);
  const sort = order === "id" ? ({ _id: 1 } as const) : ({ [timeOf(order)]: -1, _id: -1 } as const);
  const conditions = await conditionsOf(collections, query);
  const found = await Promise.all(
    conditions.map(async (condition) => {
      const where = after === undefined ? condition : { $and: [condition, afterOf(after, order)] };
      return await collections.runs.find(where, { projection: runAndNow }).sort(sort).limit(limit).toArray();
    }),
  );
  const lists = await Promise.all(found.map((each) => withInputs(collections, each as unknown as RunDocument[], {})));
  return mergeRuns(distinct(lists), order, limit);
}

export async function countRuns(collections: Collections, filter: RunFilter, max: number): Promise<RunCounts> {
  const path = pathOf(filter);
  const counted = { projection: { status: 1, trouble: 1, unsettled: 1 } };
  const conditions =
    path === "listed" || path === "ended" ? await branchesOf(collections, filter, path, 1) : await conditionsOf(collections, filter);
  const found = await Promise.all(
    conditions.map(async (condition) => await collections.runs.find(condition, counted).limit(max).toArray()),
  );
  const known = new Map(found.flat().map((run) => [run._id, run]));
  return countByStatus(known.values(), max);
}

/** A run may have a trouble and unsettled steps: then two conditions find it. */
function distinct(lists: readonly RunRecord[][]): RunRecord[][] {
  const seen = new Set<string>();
  return lists.map((list) => list.filter(({ id }) => !seen.has(id) && seen.add(id)));
}

const timeOf = (order: RunOrder) => (order === "ended" ? "endedAt" : "createdAt");

function afterOf({ at, id }: RunPosition, order: RunOrder): Condition {
  if (order === "id") return { _id: { $gt: id } };
  const time = timeOf(order);
  return { $or: [{ [time]: { $lt: at } }, { [time]: at, _id: { $lt: id } }] };
}

async function conditionsOf(collections: Collections, filter: RunFilter): Promise<Condition[]> {
  const { workflow, status, scope, parent, errorName, errorCode, attribute, idPrefix = "" } = filter;
  const path = pathOf(filter);
  const base = { ...(scope === undefined ? {} : { scope }), ...within("createdAt", filter.createdAfter, filter.createdBefore) };
  switch (path) {
    case "listed":
      if (workflow === undefined && status === undefined && scope === undefined) return [base];
      return await branchesOf(collections, filter, path, scansMax);
    case "ended":
      return await branchesOf(collections, filter, path, scansMax);
    case "id":
      return [{ ...base, _id: { $gte: idPrefix, $lt: afterPrefix(idPrefix) } }];
    case "parent":
      return [{ ...base, parent }];
    case "errorName":
      return [{ ...base, errorName }];
    case "errorCode":
      return [{ ...base, errorCode }];
    case "attribute":
      return [{ ...base, terms: attribute && termOf(attribute.name, attribute.text) }];
    case "person": {
      const statuses = runStatuses.filter((each) => needsPerson({ status: each, trouble: "", unsettled: 0 }));
      return [
        { ...base, trouble: { $gte: "" }, status: { $in: statuses } },
        { ...base, unsettled: { $gt: 0 } },
      ];
    }
  }
}

/** MongoDB merges at most this many index scans in the order of the list. */
const scansMax = 200;

/** The runs of each requested workflow and status. Without these filters: of all workflows that there are, and all statuses. */
async function branchesOf(
  collections: Collections,
  { workflow, status, scope, ...filter }: RunFilter,
  path: "listed" | "ended",
  scans: number,
): Promise<Condition[]> {
  const inScope = scope === undefined ? {} : { scope };
  const workflows = workflow === undefined ? ((await collections.runs.distinct("workflow", inScope)) as string[]) : [workflow];
  const possible: readonly RunStatus[] = path === "ended" ? ["completed", "failed", "cancelled"] : runStatuses;
  const statuses = status === undefined ? possible : [status];
  const window =
    path === "ended"
      ? within("endedAt", filter.endedAfter ?? 1, filter.endedBefore)
      : within("createdAt", filter.createdAfter, filter.createdBefore);
  const statusesEach = scans === 1 ? statuses.map((each) => [each]) : [statuses];
  const size = Math.max(1, Math.floor(scans / statuses.length));
  return statusesEach.flatMap((some) =>
    chunked(workflows, size).map((names) => ({ ...inScope, workflow: { $in: names }, status: { $in: some }, ...window })),
  );
}

function chunked<T>(all: readonly T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(all.length / size) }, (_, i) => all.slice(i * size, (i + 1) * size));
}

function within(member: string, from: number | undefined, to: number | undefined): Condition {
  if (from === undefined && to === undefined) return {};
  return { [member]: { ...(from === undefined ? {} : { $gte: from }), ...(to === undefined ? {} : { $lt: to }) } };
}

export async function listHooks(collections: Collections, { scope, run, after, limit }: HookListQuery): Promise<HookRecord[]> {
  // The index of hooks by run has the number of the run.
  const of = run === undefined ? undefined : await findRun(collections, run, {});
  if (run !== undefined && of === undefined) return [];
  const where = {
    ...(after === undefined ? {} : { _id: { $gt: after } }),
    ...(of === undefined ? {} : { no: of.no }),
    ...(scope === undefined ? {} : { scope }),
  };
  return (await collections.hooks.find(where).sort({ _id: 1 }).limit(limit).toArray()).map(toHook);
}
