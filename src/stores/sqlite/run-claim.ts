import type { Claimed, ClaimQuery, Claims } from "../../core/run-operation.js";
import type { Prepared } from "./prepared.js";
import { loadRuns } from "./run-load.js";
import type { RunNumbers } from "./run-numbers.js";
import { storeNow } from "./run-row.js";

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
    SELECT min(r.wake_at) FROM onceflow_runs r WHERE r.ended_at IS NULL AND r.owner IS o.owner AND r.workflow = w.value
  ) AS wakeAt
  FROM owners o CROSS JOIN json_each(?) w WHERE o.owner IS NOT ?`;
const selectDue = `SELECT no, owner, wake_at AS wakeAt FROM onceflow_runs
  WHERE ended_at IS NULL AND owner IS ? AND workflow = ? AND wake_at <= ? ORDER BY wake_at, no LIMIT ?`;
const take = `UPDATE onceflow_runs SET owner = ?, epoch = epoch + 1, wake_at = ?, status = 'running', trouble = NULL,
  started_at = coalesce(started_at, ?) WHERE no = ?`;

interface Lane {
  readonly owner: string | null;
  readonly workflow: string;
  readonly wakeAt: number;
}

interface Due {
  readonly no: number;
  readonly owner: string | null;
  readonly wakeAt: number;
}

/** Without a lock. Undefined when something is due: then it is worth one. */
export function nothingDue(sql: Prepared, query: ClaimQuery): Claims | undefined {
  const now = storeNow(sql);
  const nextAt = nextOf(lanesOf(sql, query));
  return nextAt !== null && nextAt <= now ? undefined : { now, claimed: [], nextAt };
}

/** Inside a write transaction: looks again, because whoever was faster has taken what was due. */
export function takeDue(sql: Prepared, numbers: RunNumbers, query: ClaimQuery): Claims {
  const { owner, leaseMs, limit } = query;
  const now = storeNow(sql);
  const due = lanesOf(sql, query)
    .filter(({ wakeAt }) => wakeAt <= now)
    .flatMap((lane) => sql(selectDue).all(lane.owner, lane.workflow, now, limit) as Due[])
    .sort((a, b) => a.wakeAt - b.wakeAt || a.no - b.no)
    .slice(0, limit);
  for (const { no } of due) sql(take).run(owner, now + leaseMs, now, no);
  const nextAt = nextOf(lanesOf(sql, query));
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

function lanesOf(sql: Prepared, { workflows, owner }: ClaimQuery): Lane[] {
  const lanes = sql(selectLanes).all(JSON.stringify([...new Set(workflows)]), owner) as (Omit<Lane, "wakeAt"> & {
    wakeAt: number | null;
  })[];
  return lanes.filter((lane): lane is Lane => lane.wakeAt !== null);
}

function nextOf(lanes: readonly Lane[]): number | null {
  return lanes.length === 0 ? null : Math.min(...lanes.map(({ wakeAt }) => wakeAt));
}
