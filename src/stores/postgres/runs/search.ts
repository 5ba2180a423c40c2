import { assert } from "../../../core/errors/errors.js";
import type { HookListQuery, RunListQuery } from "../../../core/runs/operation.js";
import type { HookRecord, RunRecord, RunStatus } from "../../../core/runs/run.js";
import { afterPrefix, orderOf, type RunCounts, type RunFilter, type RunOrder, type RunPosition } from "../../../core/runs/search/filter.js";
import { pathOf } from "../../../core/runs/search/served.js";
import type { PgClient } from "../driver.js";
import { selectedHook, selectedRun } from "./row.js";

type Value = string | number;
type Bind = (value: Value) => string;

/** The rows `r` of a search: their table, the conditions that its index serves, and the columns of their order. */
interface Source {
  readonly table: "runs" | "run_attributes";
  readonly where: readonly string[];
  readonly at: string;
  readonly id: string;
}

export async function listRuns(client: PgClient, schema: string, query: RunListQuery): Promise<RunRecord[]> {
  const values: Value[] = [];
  const text = listText(query, (value) => `$${values.push(value)}`);
  const { rows } = await client.query<RunRecord>(text.replaceAll("$schema", schema), values);
  return rows;
}

/** The limit is a literal: for a parameter the planner expects a tenth of the table, and would rather sort than use the order of an index. */
function listText(query: RunListQuery, bind: Bind): string {
  const path = pathOf(query);
  const order = orderOf(query);
  const limit = literal(query.limit);
  const source = sourceOf(query, bind);
  const { at, id, table } = source;
  const where = [...source.where, ...afterOf(query.after, source, order, bind)].join(" AND ") || "true";
  if (path === "listed" || path === "ended") return mergedText({ at, where, limit, branches: branchesOf(query, path, bind) });
  const sorted = order === "id" ? `${id}` : `${at} DESC, ${id} DESC`;
  if (table === "runs") return `SELECT ${selectedRun} FROM $schema.runs r WHERE ${where} ORDER BY ${sorted} LIMIT ${limit}`;
  return `SELECT y.* FROM (SELECT ${id} AS id, ${at} AS at FROM $schema.${table} r WHERE ${where} ORDER BY ${sorted} LIMIT ${limit}) k
    CROSS JOIN LATERAL (SELECT ${selectedRun} FROM $schema.runs r WHERE r.id = k.id LIMIT 1) y ORDER BY k.at DESC, k.id DESC`;
}

interface Merged {
  readonly at: string;
  readonly where: string;
  readonly limit: string;
  readonly branches: string;
}

/**
 * Reads the newest runs of every requested workflow and status by the index, and then the newest of those. Existing workflows are found by
 * jumps through the same index.
 */
function mergedText({ at, where, limit, branches }: Merged): string {
  return `WITH RECURSIVE ${branches},
    newest AS MATERIALIZED (
      SELECT x.id, x.at FROM names n, statuses s CROSS JOIN LATERAL (
        SELECT r.id, ${at} AS at FROM $schema.runs r WHERE r.workflow = n.workflow AND r.status = s.status AND ${where}
        ORDER BY ${at} DESC, r.id DESC LIMIT ${limit}) x
      ORDER BY x.at DESC, x.id DESC LIMIT ${limit})
    SELECT y.* FROM newest n CROSS JOIN LATERAL (SELECT ${selectedRun} FROM $schema.runs r WHERE r.id = n.id LIMIT 1) y
    ORDER BY n.at DESC, n.id DESC`;
}

export async function countRuns(client: PgClient, schema: string, filter: RunFilter, max: number): Promise<RunCounts> {
  const values: Value[] = [];
  const text = countText(filter, literal(max), (value) => `$${values.push(value)}`);
  const { rows } = await client.query<{ status: RunStatus; found: number }>(text.replaceAll("$schema", schema), values);
  return Object.fromEntries(rows.filter(({ found }) => found > 0).map(({ status, found }) => [status, Math.min(max, Number(found))]));
}

/** In the order of the index, although a count needs none: otherwise the planner may prefer to read the table until it has found enough. */
function countText(filter: RunFilter, max: string, bind: Bind): string {
  const path = pathOf(filter);
  const { table, where, id, at } = sourceOf(filter, bind);
  const condition = where.join(" AND ") || "true";
  const sorted = path === "id" ? id : `${at} DESC, ${id} DESC`;
  if (path === "listed" || path === "ended")
    return `WITH RECURSIVE ${branchesOf(filter, path, bind)}
    SELECT s.status, sum(x.found)::bigint AS found FROM names n, statuses s CROSS JOIN LATERAL (
      SELECT count(*) AS found FROM (
        SELECT 1 FROM $schema.runs r WHERE r.workflow = n.workflow AND r.status = s.status AND ${condition}
        ORDER BY ${sorted} LIMIT ${max}) y) x
    GROUP BY s.status`;
  const found = `SELECT ${id} AS id FROM $schema.${table} r WHERE ${condition} ORDER BY ${sorted} LIMIT ${max}`;
  return `SELECT y.status, count(*) AS found FROM (${found}) k
    CROSS JOIN LATERAL (SELECT r.status FROM $schema.runs r WHERE r.id = k.id LIMIT 1) y GROUP BY y.status`;
}

/** A whole number, to be written into a statement. */
function literal(value: number): string {
  assert(Number.isSafeInteger(value) && value >= 0, "a limit is a whole number");
  return String(value);
}

/** The tables `names` and `statuses`: the requested ones, or all that there are. */
function branchesOf({ workflow, status, scope }: RunFilter, path: "listed" | "ended", bind: Bind): string {
  const names = workflow === undefined ? everyWorkflow(scope, bind) : `SELECT ${bind(workflow)}::text`;
  const all =
    path === "ended" ? "unnest('{completed,failed,cancelled}'::$schema.run_status[])" : "unnest(enum_range(NULL::$schema.run_status))";
  const statuses = status === undefined ? all : `(SELECT ${bind(status)}::$schema.run_status)`;
  return `names(workflow) AS (${names}), statuses AS MATERIALIZED (SELECT s.status FROM ${statuses} AS s(status))`;
}

function everyWorkflow(scope: string | undefined, bind: Bind): string {
  const inScope = scope === undefined ? "true" : `r.scope = ${bind(scope)} AND r.scope <> ''`;
  const first = (more: string) => `SELECT r.workflow FROM $schema.runs r WHERE ${inScope} AND ${more} ORDER BY r.workflow LIMIT 1`;
  return `(${first("true")})
      UNION ALL
      SELECT (${first("r.workflow > n.workflow")}) FROM names n WHERE n.workflow IS NOT NULL`;
}

/** The conditions of partial indexes are repeated literally: the value of a parameter is not known when the statement is planned. */
function sourceOf(filter: RunFilter, bind: Bind): Source {
  const { scope, parent, errorName, errorCode, attribute, idPrefix = "" } = filter;
  const path = pathOf(filter);
  const runs: Pick<Source, "table" | "id"> = { table: "runs", id: "r.id" };
  const inScope = scope === undefined ? [] : [`r.scope = ${bind(scope)}`, "r.scope <> ''"];
  const created = { at: "r.created_at", where: [...inScope, ...windowOf("r.created_at", filter.createdAfter, filter.createdBefore, bind)] };
  const by = (...conditions: string[]): Source => ({ ...runs, at: created.at, where: [...conditions, ...created.where] });
  switch (path) {
    case "listed":
      return by();
    case "ended": {
      const window = windowOf("r.ended_at", filter.endedAfter, filter.endedBefore, bind);
      return { ...runs, at: "r.ended_at", where: ["r.ended_at IS NOT NULL", ...inScope, ...window] };
    }
    case "id":
      return by(`r.id >= ${bind(idPrefix)}`, `r.id < ${bind(afterPrefix(idPrefix))}`);
    case "parent":
      return by(`r.parent = ${bind(parent ?? "")}`);
    case "errorName":
      return by(`r.error_name = ${bind(errorName ?? "")}`);
    case "errorCode":
      return by(`r.error_code = ${bind(errorCode ?? "")}`);
    case "attribute": {
      const { name = "", text = "" } = attribute ?? {};
      return {
        table: "run_attributes",
        id: "r.run",
        at: created.at,
        where: [`r.name = ${bind(name)}`, `r.value = ${bind(text)}`, ...created.where],
      };
    }
    case "person":
      return by("(r.trouble IS NOT NULL OR r.unsettled > 0)", "(r.unsettled > 0 OR r.status NOT IN ('pending', 'running', 'paused'))");
  }
}

function windowOf(at: string, from: number | undefined, to: number | undefined, bind: Bind): string[] {
  return [...(from === undefined ? [] : [`${at} >= ${bind(from)}::bigint`]), ...(to === undefined ? [] : [`${at} < ${bind(to)}::bigint`])];
}

/** Only the rows after a position. The first condition is less exact, but an index without the id can use it, too. */
function afterOf(after: RunPosition | undefined, { at, id }: Source, order: RunOrder, bind: Bind): string[] {
  if (after === undefined) return [];
  const last = `${bind(after.id)}::text`;
  if (order === "id") return [`${id} > ${last}`];
  const time = `${bind(after.at)}::bigint`;
  return [`${at} <= ${time}`, `(${at}, ${id}) < (${time}, ${last})`];
}

export async function listHooks(client: PgClient, schema: string, { scope, run, after = "", limit }: HookListQuery): Promise<HookRecord[]> {
  const values: Value[] = [limit, after];
  const where = [
    "token > $2",
    ...(run === undefined ? [] : [`run = $${values.push(run)}`]),
    ...(scope === undefined ? [] : [`scope = $${values.push(scope)} AND scope <> ''`]),
  ];
  const sql = `SELECT ${selectedHook} FROM ${schema}.hooks WHERE ${where.join(" AND ")} ORDER BY token LIMIT $1`;
  const { rows } = await client.query<HookRecord>(sql, values);
  return rows;
}
