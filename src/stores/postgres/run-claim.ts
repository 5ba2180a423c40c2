import { hasEnded } from "../../core/run.js";
import type { Claimed, ClaimQuery, Claims, Renewed, RenewQuery } from "../../core/run-operation.js";
import { arrayLiteral } from "./columns.js";
import type { PgClient } from "./driver.js";
import { serverNow } from "./read.js";
import { loadRuns } from "./run-load.js";

interface Taken {
  readonly id: string;
  readonly epoch: number;
  readonly lapsed: boolean;
}

/**
 * What is due, from two indexes: runs that nobody has, by workflow; and lapsed runs of every other owner, by owner and
 * workflow.
 *
 *   held    the first run of every owner and workflow: a jump from each to the next through the index, not a scan
 *   heads   the first to wake of what may be claimed, of each workflow and owner
 *   due     the oldest behind every head that is due; more than asked for, because others may be claiming them now
 *   picked  the oldest of those, locked. One that is locked already is somebody else's business
 *   taken   claimed: from here on its last owner's lease is over, whatever its clock says
 *
 * When nothing is due, that is one probe of an index for each head, and nothing is written or locked.
 */
function claimStatement(schema: string): string {
  const behind = (when: string, limit: string) => {
    const next = (whose: string) => `LATERAL (SELECT r.id, r.wake_at FROM $schema.runs r WHERE ${whose} AND r.workflow = h.workflow
    AND r.wake_at ${when} ORDER BY r.wake_at LIMIT ${limit}) x`;
    return `SELECT x.* FROM heads h, clock, ${next("r.owner IS NULL")} WHERE h.wake_at <= now AND h.owner IS NULL
  UNION ALL
  SELECT x.* FROM heads h, clock, ${next("r.owner = h.owner")} WHERE h.wake_at <= now AND h.owner IS NOT NULL`;
  };
  return `WITH RECURSIVE clock AS MATERIALIZED (SELECT ${serverNow} AS now),
held AS (
  (SELECT owner, workflow, wake_at FROM $schema.runs WHERE owner IS NOT NULL ORDER BY owner, workflow, wake_at LIMIT 1)
  UNION ALL
  SELECT x.* FROM held h, LATERAL (
    SELECT r.owner, r.workflow, r.wake_at FROM $schema.runs r WHERE r.owner IS NOT NULL AND (r.owner, r.workflow) > (h.owner, h.workflow)
    ORDER BY r.owner, r.workflow, r.wake_at LIMIT 1) x
), heads AS MATERIALIZED (
  SELECT NULL::text AS owner, n.workflow, x.wake_at FROM unnest($1::text[]) AS n(workflow), LATERAL (
    SELECT r.wake_at FROM $schema.runs r WHERE r.owner IS NULL AND r.workflow = n.workflow AND r.wake_at IS NOT NULL
    ORDER BY r.wake_at LIMIT 1) x
  UNION ALL
  SELECT owner, workflow, wake_at FROM held WHERE owner <> $2 AND workflow = ANY ($1::text[])
), due AS MATERIALIZED (
  ${behind("<= now", "$4::int * 2 + 20")}
), picked AS MATERIALIZED (
  SELECT r.id, r.owner, d.wake_at FROM clock, due d JOIN $schema.runs r ON r.id = d.id
  WHERE r.wake_at <= now AND r.owner IS DISTINCT FROM $2
  ORDER BY d.wake_at LIMIT $4::int FOR UPDATE OF r SKIP LOCKED
), taken AS (
  UPDATE $schema.runs r SET owner = $2, epoch = r.epoch + 1, wake_at = now + $3::bigint, status = 'running', trouble = NULL,
    started_at = coalesce(r.started_at, now)
  FROM picked p, clock WHERE r.id = p.id
  RETURNING r.id, r.epoch, p.owner IS NOT NULL AS lapsed, p.wake_at
), upcoming AS (
  SELECT wake_at FROM heads, clock WHERE wake_at > now
  UNION ALL
  SELECT wake_at FROM due WHERE id NOT IN (SELECT id FROM picked)
  UNION ALL
  SELECT wake_at FROM (${behind("> now", "1")}) x
)
SELECT now, (SELECT min(wake_at) FROM upcoming) AS "nextAt",
  (SELECT json_agg(json_build_object('id', id, 'epoch', epoch, 'lapsed', lapsed) ORDER BY wake_at) FROM taken) AS taken FROM clock`.replaceAll(
    "$schema",
    schema,
  );
}

/** Takes what is due, and then loads it: two trips, or one when nothing is. */
export async function claimRuns(client: PgClient, schema: string, { owner, workflows, leaseMs, limit }: ClaimQuery): Promise<Claims> {
  const values = [arrayLiteral([...new Set(workflows)]), owner, leaseMs, limit];
  const { rows } = await client.query<{ now: number; nextAt: number | null; taken: Taken[] | null }>({
    name: "onceflow-runs-claim",
    text: claimStatement(schema),
    values,
  });
  const { now = 0, nextAt = null, taken } = rows[0] ?? {};
  if (!taken) return { now, claimed: [], nextAt };
  const loaded = new Map((await loadRuns(client, schema, taken)).map((one) => [one.run.id, one]));
  const claimed = taken.flatMap(({ id, epoch, lapsed }): Claimed[] => {
    const one = loaded.get(id);
    // Between the two statements its last owner may have ended it, or its lease, if short, may have gone to another one.
    if (one === undefined || one.run.owner !== owner || one.run.epoch !== epoch || hasEnded(one.run.status)) return [];
    return [{ ...one, lapsed }];
  });
  return { now, claimed, nextAt };
}

/**
 * In the order in which flushes lock too, by id: otherwise each could wait for what the other has. It waits for locks:
 * a run that is left out would count as lost.
 */
export async function renewRuns(client: PgClient, schema: string, { owner, leaseMs }: RenewQuery): Promise<Renewed[]> {
  const text = `WITH held AS MATERIALIZED (SELECT id FROM ${schema}.runs WHERE owner = $1 ORDER BY id FOR UPDATE)
    UPDATE ${schema}.runs r SET wake_at = ${serverNow} + $2::bigint FROM held h WHERE r.id = h.id RETURNING r.id, r.epoch, r.mail`;
  const { rows } = await client.query<Renewed>({ name: "onceflow-runs-renew", text, values: [owner, leaseMs] });
  return rows;
}
