import type { Claimed, ClaimQuery, Claims } from "../../../core/runs/operation.js";
import { type Candidate, chooseDue, claimableAt, claimedBy, mayClaimSuspects, nextClaimAt } from "../../../core/runs/rules/claim.js";
import type { RunRecord } from "../../../core/runs/run.js";
import type { Prepared } from "../connection/prepared.js";
import { loadRuns } from "./load.js";
import type { RunNumberHints } from "./number-hints.js";
import { storeNow, text } from "./row.js";
import type { SqliteRunTable } from "./table.js";

/** Runs that every worker of their workflow may claim. The others are rare, and have their own index. */
const unrestricted = "r.deaths < 2 AND r.avoid IS NULL";

/**
 * A lane is one owner (or no owner) and one workflow. The queue's index is sorted by lane, so that renewals, which find the runs of an
 * owner, need no other index. Owners are few: the recursion seeks from one to the next, and ends with null, the lane of runs without an
 * owner.
 */
const selectLanes = `WITH RECURSIVE owners (owner) AS (
    SELECT min(owner) FROM onceflow_runs WHERE ended_at IS NULL
    UNION ALL
    SELECT (SELECT min(r.owner) FROM onceflow_runs r WHERE r.ended_at IS NULL AND r.owner > o.owner) FROM owners o WHERE o.owner IS NOT NULL
  )
  SELECT o.owner, w.value AS workflow, (
    SELECT min(r.wake_at) FROM onceflow_runs r WHERE r.ended_at IS NULL AND r.owner IS o.owner AND r.workflow = w.value AND ${unrestricted}
  ) AS wakeAt
  FROM owners o CROSS JOIN json_each(?) w WHERE o.owner IS NOT ?`;
const selectDue = `SELECT no, wake_at AS at, deaths FROM onceflow_runs r
  WHERE ended_at IS NULL AND owner IS ? AND workflow = ? AND wake_at <= ? AND ${unrestricted} ORDER BY wake_at, no LIMIT ?`;
const restricted = "no, deaths, wake_at AS wakeAt, avoid, avoid_until AS avoidUntil";
// Repeats the index's condition literally, so that SQLite can use the index.
const selectRestricted = `SELECT ${restricted} FROM onceflow_runs INDEXED BY onceflow_runs_restricted
  WHERE ended_at IS NULL AND wake_at IS NOT NULL AND (deaths >= 2 OR avoid IS NOT NULL)
    AND owner IS NOT ? AND workflow IN (SELECT value FROM json_each(?))`;
const selectOne = `SELECT ${restricted} FROM onceflow_runs WHERE ended_at IS NULL AND wake_at IS NOT NULL AND owner IS NOT ? AND id = ?`;
interface Lane {
  readonly owner: string | null;
  readonly workflow: string;
  readonly wakeAt: number;
}

interface Queued extends Candidate {
  readonly no: number;
}

interface RestrictedRow extends Pick<RunRecord, "deaths" | "wakeAt" | "avoidUntil"> {
  readonly no: number;
  readonly avoid: string | null;
}

/** Reads without a lock. Undefined if something is due, so that a lock is worth it. */
export function nothingDue(sql: Prepared, query: ClaimQuery): Claims | undefined {
  const now = storeNow(sql);
  const nextAt = nextOf(sql, query, query.suspects ?? true);
  return nextAt !== null && nextAt <= now ? undefined : { now, claimed: [], nextAt };
}

/** Inside a write transaction: reads again, because another worker may have claimed what was due. */
export function takeDue(sql: Prepared, table: SqliteRunTable, hints: RunNumberHints, query: ClaimQuery): Claims {
  const { owner, leaseMs } = query;
  const now = table.begin().now();
  const due = dueAt(sql, query, now);
  const loaded = loadRuns(
    sql,
    due.map(({ no }) => no),
  );
  const claimed = due.map(({ no }): Claimed => {
    const { run, ...parts } = loaded.get(no) as Omit<Claimed, "lapsed">;
    const taken = { ...claimedBy(owner, run, now), wakeAt: now + leaseMs };
    table.changeRun(run.id, taken);
    hints.set(run.id, no);
    return { run: { ...run, ...taken }, ...parts, lapsed: run.owner !== null };
  });
  return { now, claimed, nextAt: nextOf(sql, query, mayClaimSuspects(query, due)) };
}

/** The oldest runs of every lane that is due, and the few runs that not every worker may claim: enough for the rule to choose from. */
function dueAt(sql: Prepared, query: ClaimQuery, now: number): Queued[] {
  const lanes = lanesOf(sql, query).filter(({ wakeAt }) => wakeAt <= now);
  const queued = lanes.flatMap((lane) => sql(selectDue).all(lane.owner, lane.workflow, now, query.limit) as Queued[]);
  const queue = [...queued, ...restrictedOf(sql, query)].sort((a, b) => a.at - b.at || a.no - b.no);
  return chooseDue(queue, query, now);
}

/** When this owner can claim the next run, as far as is known now. */
function nextOf(sql: Prepared, query: ClaimQuery, suspects: boolean): number | null {
  const heads = lanesOf(sql, query).map(({ wakeAt }) => ({ at: wakeAt, deaths: 0 }));
  return nextClaimAt([...heads, ...restrictedOf(sql, query)], suspects);
}

function lanesOf(sql: Prepared, { workflows, owner, run }: ClaimQuery): Lane[] {
  if (run !== undefined) return [];
  const lanes = sql(selectLanes).all(JSON.stringify([...new Set(workflows)]), owner) as (Omit<Lane, "wakeAt"> & {
    wakeAt: number | null;
  })[];
  return lanes.filter((lane): lane is Lane => lane.wakeAt !== null);
}

/** Runs that not every worker may claim, or the one run that the query names. */
function restrictedOf(sql: Prepared, { workflows, owner, run }: ClaimQuery): Queued[] {
  const rows =
    run === undefined ? sql(selectRestricted).all(owner, JSON.stringify([...new Set(workflows)])) : sql(selectOne).all(owner, text(run));
  return (rows as RestrictedRow[]).map(({ no, deaths, wakeAt, avoid, avoidUntil }) => {
    const avoided = avoid === null ? [] : (JSON.parse(avoid) as string[]);
    return { no, deaths, at: claimableAt({ wakeAt, avoid: avoided, avoidUntil }, owner) };
  });
}
