import type { Claimed, ClaimQuery, Claims } from "../../../core/runs/operation.js";
import { isSuspect, type RunRecord } from "../../../core/runs/run.js";
import type { Prepared } from "../connection/prepared.js";
import { loadRuns } from "./load.js";
import type { RunNumbers } from "./numbers.js";
import { storeNow, text } from "./row.js";

/** Every worker of its workflow may claim it. The others are rare, and are found by an index of their own. */
const unrestricted = "r.deaths < 2 AND r.avoid IS NULL";

/**
 * Runs queue up in lanes: one for every workflow among those that an owner has, and among those that nobody has. The
 * index of the queue has them in this order, so that who renews its runs needs no index of its own. Owners are few: the
 * recursion goes from one to the next by a seek, and ends with null, which is nobody's lane.
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
const selectDue = `SELECT no, owner, wake_at AS at, deaths FROM onceflow_runs r
  WHERE ended_at IS NULL AND owner IS ? AND workflow = ? AND wake_at <= ? AND ${unrestricted} ORDER BY wake_at, no LIMIT ?`;
/** When this owner may claim it: a worker that is to be avoided waits longer than the others. */
const selectedAt = `no, owner, deaths,
  CASE WHEN avoid IS NOT NULL AND EXISTS (SELECT 1 FROM json_each(avoid) a WHERE a.value = ?) THEN max(wake_at, avoid_until) ELSE wake_at END AS at`;
// The index's own condition, to the letter: so that it is known to hold what is asked for.
const selectRestricted = `SELECT ${selectedAt} FROM onceflow_runs INDEXED BY onceflow_runs_restricted
  WHERE ended_at IS NULL AND wake_at IS NOT NULL AND (deaths >= 2 OR avoid IS NOT NULL)
    AND owner IS NOT ? AND workflow IN (SELECT value FROM json_each(?))`;
const selectOne = `SELECT ${selectedAt} FROM onceflow_runs WHERE ended_at IS NULL AND wake_at IS NOT NULL AND owner IS NOT ? AND id = ?`;
/** The death of an owner that fell silent is counted here, before any code of the run executes. */
const take = `UPDATE onceflow_runs SET owner = ?, epoch = epoch + 1, wake_at = ?, status = 'running', trouble = NULL,
  started_at = coalesce(started_at, ?), deaths = deaths + (owner IS NOT NULL), crashes = crashes + (owner IS NOT NULL AND alone), alone = 0
  WHERE no = ?`;

interface Lane {
  readonly owner: string | null;
  readonly workflow: string;
  readonly wakeAt: number;
}

interface Candidate extends Pick<RunRecord, "owner" | "deaths"> {
  readonly no: number;
  readonly at: number;
}

/** Without a lock. Undefined when something is due: then it is worth one. */
export function nothingDue(sql: Prepared, query: ClaimQuery): Claims | undefined {
  const now = storeNow(sql);
  const nextAt = nextOf(sql, query, query.suspects ?? true);
  return nextAt !== null && nextAt <= now ? undefined : { now, claimed: [], nextAt };
}

/** Inside a write transaction: looks again, because whoever was faster has taken what was due. */
export function takeDue(sql: Prepared, numbers: RunNumbers, query: ClaimQuery): Claims {
  const { owner, leaseMs } = query;
  const now = storeNow(sql);
  const due = dueAt(sql, query, now);
  for (const { no } of due) sql(take).run(owner, now + leaseMs, now, no);
  const nextAt = nextOf(sql, query, (query.suspects ?? true) && !due.some(isSuspect));
  const loaded = loadRuns(
    sql,
    due.map(({ no }) => no),
  );
  const claimed = due.map(({ no, owner: before }): Claimed => {
    const parts = loaded.get(no) as Omit<Claimed, "lapsed">;
    numbers.set(parts.run.id, no);
    return { ...parts, lapsed: before !== null };
  });
  return { now, claimed, nextAt };
}

/** What is claimed now: the oldest, and of suspects one at most. */
function dueAt(sql: Prepared, query: ClaimQuery, now: number): Candidate[] {
  const { suspects = true, limit } = query;
  const lanes = lanesOf(sql, query).filter(({ wakeAt }) => wakeAt <= now);
  const queued = lanes.flatMap((lane) => sql(selectDue).all(lane.owner, lane.workflow, now, limit) as Candidate[]);
  const due = [...queued, ...restrictedOf(sql, query).filter(({ at }) => at <= now)].sort((a, b) => a.at - b.at || a.no - b.no);
  const suspect = suspects ? due.find(isSuspect) : undefined;
  return due.filter((one) => one === suspect || !isSuspect(one)).slice(0, limit);
}

/** When this owner can claim the next run, as far as is known now. */
function nextOf(sql: Prepared, query: ClaimQuery, suspects: boolean): number | null {
  const restricted = restrictedOf(sql, query).filter((one) => suspects || !isSuspect(one));
  const times = [...lanesOf(sql, query).map(({ wakeAt }) => wakeAt), ...restricted.map(({ at }) => at)];
  return times.length === 0 ? null : times.reduce((a, b) => Math.min(a, b));
}

function lanesOf(sql: Prepared, { workflows, owner, run }: ClaimQuery): Lane[] {
  if (run !== undefined) return [];
  const lanes = sql(selectLanes).all(JSON.stringify([...new Set(workflows)]), owner) as (Omit<Lane, "wakeAt"> & {
    wakeAt: number | null;
  })[];
  return lanes.filter((lane): lane is Lane => lane.wakeAt !== null);
}

/** Runs that not every worker may claim, or the one run that is asked for. */
function restrictedOf(sql: Prepared, { workflows, owner, run }: ClaimQuery): Candidate[] {
  if (run !== undefined) return sql(selectOne).all(owner, owner, text(run)) as Candidate[];
  return sql(selectRestricted).all(owner, owner, JSON.stringify([...new Set(workflows)])) as Candidate[];
}
