import type { Claimed, ClaimQuery, Claims } from "../../../core/runs/operation.js";
import { hasEnded } from "../../../core/runs/run.js";
import type { PgClient } from "../driver.js";
import { serverNow } from "../ledger/read.js";
import { arrayLiteral } from "../parameters/columns.js";
import { loadRuns } from "./load.js";

interface Taken {
  readonly id: string;
  readonly epoch: number;
  readonly lapsed: boolean;
}

/** Runs that every worker of their workflow may claim. */
const unrestricted = "r.deaths < 2 AND r.avoid IS NULL";
/** When the worker $2 may claim a run. */
const claimableAt = "greatest(r.wake_at, CASE WHEN $2 = ANY (r.avoid) THEN r.avoid_until END)";

/** Evaluated on the locked row. The crash of an owner whose lease expired is counted in the same write. */
const taken = `UPDATE $schema.runs r SET owner = $2, epoch = r.epoch + 1, wake_at = now + $3::bigint, status = 'running', trouble = NULL,
    started_at = coalesce(r.started_at, now), deaths = r.deaths + (r.owner IS NOT NULL)::int,
    crashes = r.crashes + (r.owner IS NOT NULL AND r.alone)::int, alone = false
  FROM picked p, clock WHERE r.id = p.id
  RETURNING r.id, r.epoch, p.owner IS NOT NULL AS lapsed, p.wake_at`;
const answer = `SELECT now, (SELECT min(wake_at) FROM upcoming) AS "nextAt",
  (SELECT json_agg(json_build_object('id', id, 'epoch', epoch, 'lapsed', lapsed) ORDER BY wake_at) FROM taken) AS taken FROM clock`;

/**
 * Claims due runs, which it finds by three indexes: runs without an owner, by workflow; runs of other owners, by owner and
 * workflow; and the few runs that not every worker may claim.
 *
 *   held    the first run of every owner and workflow: jumps from each to the next through the index, without a scan
 *   heads   the earliest claimable run of each workflow and owner
 *   restricted  suspects, and runs that some workers have to avoid. The two above skip them
 *   due     the earliest runs behind every head that is due; more than wanted, because other workers may be claiming them. Of
 *           suspects only the oldest
 *   picked  the oldest of those, locked. Runs that another claim has locked are skipped
 *   taken   the claimed runs: from here on the former owner has lost its lease, whatever its clock says
 *
 * If nothing is due, that is one index lookup for each head, and nothing is written or locked.
 *
 * It repeats the rule of core/runs/rules/claim.ts; test/runs compares them.
 */
function claimStatement(schema: string): string {
  const behind = (when: string, limit: string) => {
    const next = (whose: string) => `LATERAL (SELECT r.id, r.wake_at FROM $schema.runs r WHERE ${whose} AND r.workflow = h.workflow
    AND r.wake_at ${when} AND ${unrestricted} ORDER BY r.wake_at LIMIT ${limit}) x`;
    return `SELECT x.*, false AS suspect FROM heads h, clock, ${next("r.owner IS NULL")} WHERE h.wake_at <= now AND h.owner IS NULL
  UNION ALL
  SELECT x.*, false FROM heads h, clock, ${next("r.owner = h.owner")} WHERE h.wake_at <= now AND h.owner IS NOT NULL`;
  };
  return `WITH RECURSIVE clock AS MATERIALIZED (SELECT ${serverNow} AS now),
held AS (
  (SELECT r.owner, r.workflow, r.wake_at FROM $schema.runs r WHERE r.owner IS NOT NULL AND ${unrestricted}
    ORDER BY r.owner, r.workflow, r.wake_at LIMIT 1)
  UNION ALL
  SELECT x.* FROM held h, LATERAL (
    SELECT r.owner, r.workflow, r.wake_at FROM $schema.runs r WHERE r.owner IS NOT NULL AND (r.owner, r.workflow) > (h.owner, h.workflow)
      AND ${unrestricted} ORDER BY r.owner, r.workflow, r.wake_at LIMIT 1) x
), heads AS MATERIALIZED (
  SELECT NULL::text AS owner, n.workflow, x.wake_at FROM unnest($1::text[]) AS n(workflow), LATERAL (
    SELECT r.wake_at FROM $schema.runs r WHERE r.owner IS NULL AND r.workflow = n.workflow AND r.wake_at IS NOT NULL AND ${unrestricted}
    ORDER BY r.wake_at LIMIT 1) x
  UNION ALL
  SELECT owner, workflow, wake_at FROM held WHERE owner <> $2 AND workflow = ANY ($1::text[])
), restricted AS MATERIALIZED (
  SELECT r.id, ${claimableAt} AS wake_at, r.deaths >= 2 AS suspect FROM $schema.runs r
  WHERE r.wake_at IS NOT NULL AND (r.deaths >= 2 OR r.avoid IS NOT NULL) AND r.workflow = ANY ($1::text[]) AND r.owner IS DISTINCT FROM $2
), due AS MATERIALIZED (
  ${behind("<= now", "$4::int * 2 + 20")}
  UNION ALL
  SELECT id, wake_at, suspect FROM restricted, clock WHERE wake_at <= now AND NOT suspect
  UNION ALL
  (SELECT id, wake_at, suspect FROM restricted, clock WHERE wake_at <= now AND suspect AND $5::boolean ORDER BY wake_at LIMIT 1)
), picked AS MATERIALIZED (
  SELECT r.id, r.owner, d.wake_at, d.suspect FROM clock, due d JOIN $schema.runs r ON r.id = d.id
  WHERE ${claimableAt} <= now AND r.owner IS DISTINCT FROM $2 AND (r.deaths < 2 OR d.suspect)
  ORDER BY d.wake_at LIMIT $4::int FOR UPDATE OF r SKIP LOCKED
), taken AS (
  ${taken}
), upcoming AS (
  SELECT wake_at FROM heads, clock WHERE wake_at > now
  UNION ALL
  SELECT wake_at FROM due WHERE id NOT IN (SELECT id FROM picked)
  UNION ALL
  SELECT wake_at FROM (${behind("> now", "1")}) x
  UNION ALL
  SELECT wake_at FROM restricted WHERE id NOT IN (SELECT id FROM due)
    AND (NOT suspect OR ($5::boolean AND NOT EXISTS (SELECT 1 FROM picked p WHERE p.suspect)))
)
${answer}`.replaceAll("$schema", schema);
}

/** Claims the run $1, whatever its workflow, by the same rules. */
function claimOneStatement(schema: string): string {
  const wanted = "r.id = $1 AND r.wake_at IS NOT NULL AND r.owner IS DISTINCT FROM $2 AND ($4::boolean OR r.deaths < 2)";
  return `WITH clock AS MATERIALIZED (SELECT ${serverNow} AS now),
picked AS MATERIALIZED (
  SELECT r.id, r.owner, r.wake_at FROM clock, $schema.runs r WHERE ${wanted} AND ${claimableAt} <= now
  LIMIT $5::int FOR UPDATE OF r SKIP LOCKED
), taken AS (
  ${taken}
), upcoming AS (
  SELECT ${claimableAt} AS wake_at FROM $schema.runs r WHERE ${wanted} AND r.id NOT IN (SELECT id FROM picked)
)
${answer}`.replaceAll("$schema", schema);
}

/** Claims due runs and then loads them: two round trips, or one if nothing is due. */
export async function claimRuns(client: PgClient, schema: string, query: ClaimQuery): Promise<Claims> {
  const { owner } = query;
  const { rows } = await client.query<{ now: number; nextAt: number | null; taken: Taken[] | null }>(claimQuery(schema, query));
  const { now = 0, nextAt = null, taken } = rows[0] ?? {};
  if (!taken) return { now, claimed: [], nextAt };
  const loaded = new Map((await loadRuns(client, schema, taken)).map((one) => [one.run.id, one]));
  const claimed = taken.flatMap(({ id, epoch, lapsed }): Claimed[] => {
    const one = loaded.get(id);
    // Between the two statements the former owner may have ended the run, or a short lease may have expired and gone to another worker.
    if (one === undefined || one.run.owner !== owner || one.run.epoch !== epoch || hasEnded(one.run.status)) return [];
    return [{ ...one, lapsed }];
  });
  return { now, claimed, nextAt };
}

function claimQuery(schema: string, { owner, workflows, leaseMs, limit, suspects = true, run }: ClaimQuery) {
  if (run !== undefined)
    return { name: "onceflow-runs-claim-one", text: claimOneStatement(schema), values: [run, owner, leaseMs, suspects, limit] };
  const values = [arrayLiteral([...new Set(workflows)]), owner, leaseMs, limit, suspects];
  return { name: "onceflow-runs-claim", text: claimStatement(schema), values };
}
