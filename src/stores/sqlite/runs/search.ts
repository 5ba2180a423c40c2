import type { HookListQuery, RunListQuery } from "../../../core/runs/operation.js";
import type { HookRecord, RunRecord, RunStatus } from "../../../core/runs/run.js";
import {
  afterPrefix,
  comparePositions,
  countByStatus,
  orderOf,
  type RunCounts,
  type RunFilter,
  type RunOrder,
  type RunPosition,
} from "../../../core/runs/search/filter.js";
import { pathOf } from "../../../core/runs/search/served.js";
import type { Prepared } from "../connection/prepared.js";
import type { SqliteValue } from "../driver.js";
import { type RunRow, selectedHook, selectedRun, toHook, toRun } from "./row.js";

/** A range of an index, whose rows are in the order of the list. Lists are put together from one or several. */
interface Range {
  readonly from: string;
  readonly where: readonly string[];
  readonly values: readonly SqliteValue[];
  /** The columns with the number of the run, and with the time by which the list is ordered. */
  readonly no: string;
  readonly at: string;
}

interface Key extends RunPosition {
  readonly no: number;
}

const selectRuns = `SELECT ${selectedRun} FROM json_each(?) n CROSS JOIN onceflow_runs r WHERE r.no = n.value ORDER BY n.key`;

/** First the positions, from indexes alone, and then the rows of those that are on the page. */
export function listRuns(sql: Prepared, query: RunListQuery): RunRecord[] {
  const { after, limit } = query;
  const order = orderOf(query);
  const keys: Key[] = [];
  // Of two upper bounds SQLite would use one for the index, perhaps the wrong one: only the lower one is passed.
  const bounded = withoutUpperBound(query, order);
  const cursor = bounded === query ? after : withinBound(query, order);
  for (const { range } of rangesOf(sql, bounded)) {
    const { from, where, values, no, at } = upTo(range, order, cursor);
    const text = `SELECT ${no} AS no, ${at} AS at, r.id AS id FROM ${from} WHERE ${where.join(" AND ") || "true"} ORDER BY ${inOrder(order, at)} LIMIT ?`;
    keys.push(...(sql(text).all(...values, limit) as Key[]));
  }
  keys.sort((a, b) => comparePositions(a, b, order));
  const page = JSON.stringify(keys.slice(0, limit).map(({ no }) => no));
  return (sql(selectRuns).all(page) as RunRow[]).map(toRun);
}

export function countRuns(sql: Prepared, filter: RunFilter, max: number): RunCounts {
  const path = pathOf(filter);
  const counts: Partial<Record<RunStatus, number>> = {};
  for (const { range, status } of rangesOf(sql, filter, "counted")) {
    const { from, where, values, no } = range;
    const condition = where.join(" AND ") || "true";
    if (status === undefined) {
      const text = `SELECT s.status FROM (SELECT ${no} AS no FROM ${from} WHERE ${condition} LIMIT ?) x CROSS JOIN onceflow_runs s WHERE s.no = x.no`;
      return countByStatus(sql(text).all(...values, max) as { status: RunStatus }[], max);
    }
    const known = counts[status] ?? 0;
    const text = `SELECT count(*) AS found FROM (SELECT 1 FROM ${from} WHERE ${condition} LIMIT ?)`;
    const { found } = sql(text).get(...values, max - known) as { found: number };
    if (found > 0) counts[status] = known + found;
  }
  return path === "listed" || path === "ended" ? counts : {};
}

/** The query without the upper bound of its window, if the cursor is below it. */
function withoutUpperBound(query: RunListQuery, order: RunOrder): RunListQuery {
  const { createdBefore, endedBefore, ...rest } = query;
  const bound = order === "ended" ? endedBefore : createdBefore;
  if (bound === undefined || query.after === undefined) return query;
  // Keeps the path of the search: an empty window would be another one.
  return order === "ended" ? { ...rest, endedAfter: rest.endedAfter ?? 0 } : rest;
}

/** The lower one of the cursor and the upper bound of the window, as a cursor. */
function withinBound({ after, createdBefore, endedBefore }: RunListQuery, order: RunOrder): RunPosition | undefined {
  const bound = (order === "ended" ? endedBefore : createdBefore) ?? Number.MAX_SAFE_INTEGER;
  return after !== undefined && after.at < bound ? after : { at: bound, id: "" };
}

function inOrder(order: RunOrder, at: string): string {
  return order === "id" ? "r.id" : `${at} DESC, r.id DESC`;
}

/** Only the part of a range after a position. */
function upTo(range: Range, order: RunOrder, after: RunPosition | undefined): Range {
  if (after === undefined) return range;
  const { where, values, at } = range;
  if (order === "id") return { ...range, where: [...where, "r.id > ?"], values: [...values, after.id] };
  return { ...range, where: [...where, `(${at}, r.id) < (?, ?)`], values: [...values, after.at, after.id] };
}

/** The ranges that have the runs. `status`: that of all runs of the range, if the index has it. */
function rangesOf(sql: Prepared, filter: RunFilter, use: "listed" | "counted" = "listed"): { range: Range; status?: RunStatus }[] {
  const { workflow, status, scope, parent, errorName, errorCode, attribute, idPrefix = "" } = filter;
  const path = pathOf(filter);
  switch (path) {
    case "listed":
    case "ended": {
      const isNewest = path === "listed" && workflow === undefined && status === undefined && scope === undefined;
      if (isNewest && use === "listed") return [{ range: rangeIn("newest", { filter }) }];
      const ranges = pairsOf(sql, path, filter).map((pair) => ({
        range: rangeIn(path, {
          filter,
          is: { workflow: pair.workflow, status: pair.status },
          at: path === "ended" ? "r.ended_at" : "r.created_at",
        }),
        status: pair.status,
      }));
      const hasOwned = path === "listed" && scope === undefined && (status ?? "running") === "running";
      return hasOwned ? [...ranges, { range: ownedRange(filter), status: "running" }] : ranges;
    }
    case "id": {
      const prefix = { where: ["r.id >= ?", "r.id < ?"], values: [idPrefix, afterPrefix(idPrefix)] };
      return [{ range: rangeIn("id", { filter, also: prefix }) }];
    }
    case "parent":
      // Children have the scope of their parent: the index of all runs has no others to skip.
      return [{ range: rangeIn("parent", { filter, is: { parent: parent ?? "" }, scoped: false, also: scopeAlso(scope) }) }];
    case "errorName":
      return [{ range: rangeIn("error_name", { filter, is: { error_name: errorName ?? "" } }) }];
    case "errorCode":
      return [{ range: rangeIn("error_code", { filter, is: { error_code: errorCode ?? "" } }) }];
    case "attribute":
      return [{ range: attributeRange(filter, attribute ?? { name: "", text: "" }) }];
    case "person": {
      const also = { where: [hasTrouble, isForPerson], values: [] };
      return [{ range: rangeIn("person", { filter, also }) }];
    }
  }
}

/** Conditions of partial indexes, repeated literally: only then SQLite uses the index. */
const hasTrouble = "(r.trouble IS NOT NULL OR r.unsettled > 0)";
const isForPerson = "(r.unsettled > 0 OR r.status NOT IN ('pending', 'running', 'paused'))";
const conditions: Readonly<Record<string, string>> = {
  listed: "(r.status <> 'running' OR r.owner IS NULL)",
  ended: "r.ended_at IS NOT NULL",
  parent: "r.parent IS NOT NULL",
  error_name: "r.error_name IS NOT NULL",
  error_code: "r.error_code IS NOT NULL",
};

interface More {
  readonly where: readonly string[];
  readonly values: readonly SqliteValue[];
}

interface RangeOptions {
  readonly filter: RunFilter;
  /** Columns that have one value in the range. */
  readonly is?: Readonly<Record<string, string>>;
  readonly at?: string;
  readonly also?: More;
  /** Whether the index has the scope. Default: if the filter has one. */
  readonly scoped?: boolean;
}

function rangeIn(index: string, { filter, is = {}, at = "r.created_at", also, scoped = filter.scope !== undefined }: RangeOptions): Range {
  const window = windowOf(filter, at);
  const literal = index === "listed" && scoped ? undefined : conditions[index];
  const inScope = scoped ? { where: ["r.scope = ?", "r.scope <> ''"], values: [filter.scope ?? ""] } : { where: [], values: [] };
  return {
    from: `onceflow_runs r INDEXED BY onceflow_runs_${scoped ? "scope_" : ""}${index}`,
    where: [
      ...inScope.where,
      ...Object.keys(is).map((column) => `r.${column} = ?`),
      ...(literal === undefined ? [] : [literal]),
      ...(also?.where ?? []),
      ...window.where,
    ],
    values: [...inScope.values, ...Object.values(is), ...(also?.values ?? []), ...window.values],
    no: "r.no",
    at,
  };
}

/** Runs that workers have in memory, as many as these can have: not in the order of the list, which sorts them. */
function ownedRange(filter: RunFilter): Range {
  const { workflow } = filter;
  const window = windowOf(filter, "r.created_at");
  return {
    from: "onceflow_runs r INDEXED BY onceflow_runs_queue",
    where: [
      ...["r.ended_at IS NULL", "r.owner > ''", "r.status = 'running'"],
      ...(workflow === undefined ? [] : ["r.workflow = ?"]),
      ...window.where,
    ],
    values: [...(workflow === undefined ? [] : [workflow]), ...window.values],
    no: "r.no",
    at: "r.created_at",
  };
}

function scopeAlso(scope: string | undefined): More {
  return scope === undefined ? { where: [], values: [] } : { where: ["r.scope = ?"], values: [scope] };
}

function attributeRange(filter: RunFilter, { name, text }: NonNullable<RunFilter["attribute"]>): Range {
  const { scope } = filter;
  const window = windowOf(filter, "r.created_at");
  const inScope = scope === undefined ? { where: [], values: [] } : { where: ["r.scope = ?", "r.scope <> ''"], values: [scope] };
  return {
    from: `onceflow_run_attributes r INDEXED BY onceflow_run_attributes_${scope === undefined ? "value" : "scope"}`,
    where: [...inScope.where, "r.name = ?", "r.value = ?", ...window.where],
    values: [...inScope.values, name, text, ...window.values],
    no: "r.run",
    at: "r.created_at",
  };
}

function windowOf({ createdAfter, createdBefore, endedAfter, endedBefore }: RunFilter, at: string): More {
  const [from, to] = at === "r.ended_at" ? [endedAfter, endedBefore] : [createdAfter, createdBefore];
  return {
    where: [...(from === undefined ? [] : [`${at} >= ?`]), ...(to === undefined ? [] : [`${at} < ?`])],
    values: [from, to].filter((value) => value !== undefined),
  };
}

/** The workflows and statuses that runs have, found by jumps through the index that lists them. */
function pairsOf(
  sql: Prepared,
  path: "listed" | "ended",
  { scope, workflow, status }: RunFilter,
): { workflow: string; status: RunStatus }[] {
  if (workflow !== undefined && status !== undefined) return [{ workflow, status }];
  const index = `onceflow_runs_${scope === undefined ? "" : "scope_"}${path}`;
  const fixed = [
    ...(scope === undefined ? [] : ["r.scope = ?1", "r.scope <> ''"]),
    ...(path === "listed" && scope !== undefined ? [] : [conditions[path] ?? "true"]),
    ...(workflow === undefined ? [] : ["r.workflow = ?2"]),
  ];
  const first = (more: string) =>
    `(SELECT r.no FROM onceflow_runs r INDEXED BY ${index} WHERE ${[...fixed, more].join(" AND ")} ORDER BY r.workflow, r.status LIMIT 1)`;
  // Two comparisons of one column each: SQLite uses the index for only the first column of a comparison of rows.
  const nextStatus = first("r.workflow = x.workflow AND r.status > x.status");
  const next = workflow === undefined ? `coalesce(${nextStatus}, ${first("r.workflow > x.workflow")})` : nextStatus;
  const text = `WITH RECURSIVE pairs(no) AS (
    SELECT ${first("true")}
    UNION ALL
    SELECT ${next} FROM pairs p CROSS JOIN onceflow_runs x WHERE x.no = p.no)
    SELECT x.workflow, x.status FROM pairs p CROSS JOIN onceflow_runs x WHERE x.no = p.no AND ?1 IS ?1 AND ?2 IS ?2`;
  const found = sql(text).all(scope ?? null, workflow ?? null) as { workflow: string; status: RunStatus }[];
  return status === undefined ? found : found.filter((pair) => pair.status === status);
}

const selectHooks = (where: string, index: string) =>
  `SELECT r.id AS run, ${selectedHook} FROM onceflow_hooks h INDEXED BY onceflow_hooks_${index} CROSS JOIN onceflow_runs r
  WHERE r.no = h.run AND h.token > ? ${where} ORDER BY h.token LIMIT ?`;

export function listHooks(sql: Prepared, { scope, run, after = "", limit }: HookListQuery): HookRecord[] {
  const values = [after, ...(run === undefined ? [] : [run]), ...(scope === undefined ? [] : [scope]), limit];
  const ofRun = run === undefined ? "" : "AND h.run = (SELECT no FROM onceflow_runs WHERE id = ?)";
  const inScope = scope === undefined ? "" : "AND h.scope = ? AND h.scope <> ''";
  const index = run !== undefined ? "run" : scope !== undefined ? "scope" : "token";
  return (sql(selectHooks(`${ofRun} ${inScope}`, index)).all(...values) as HookRecord[]).map((hook) => toHook(hook.run, hook));
}
