import type { HeldRun, Renewed, RenewQuery } from "../../../core/runs/operation.js";
import { type WorkerRecord, workerKeptMs } from "../../../core/runs/run.js";
import type { PgClient } from "../driver.js";
import { serverNow } from "../ledger/read.js";
import { arrayLiteral } from "../parameters/columns.js";

const clock = `clock AS MATERIALIZED (SELECT ${serverNow} AS now)`;

/**
 * Locks rows by id, in the same order as flushes, so that the two do not deadlock. It waits for locks: a run that is skipped
 * would count as lost.
 */
const extended = `held AS MATERIALIZED (SELECT id FROM $schema.runs WHERE owner = $1 ORDER BY id FOR UPDATE)
    UPDATE $schema.runs r SET wake_at = now + $2::bigint FROM held h, clock WHERE r.id = h.id RETURNING r.id, r.creator, r.epoch, r.mail`;

const seen = `seen AS (
      INSERT INTO $schema.run_workers AS w (id, workflows, version, started_at, seen_at, lease_until)
      SELECT $1, $3::text[], $4, now, now, now + $2::bigint FROM clock
      ON CONFLICT (id) DO UPDATE SET workflows = excluded.workflows, version = excluded.version,
        seen_at = greatest(w.seen_at, excluded.seen_at), lease_until = excluded.lease_until)`;

export async function renewRuns(client: PgClient, schema: string, { owner, leaseMs, signOfLife }: RenewQuery): Promise<Renewed[]> {
  const [name, text, more] = signOfLife
    ? ["onceflow-runs-renew-seen", `WITH ${clock}, ${seen}, ${extended}`, [arrayLiteral(signOfLife.workflows), signOfLife.version]]
    : ["onceflow-runs-renew", `WITH ${clock}, ${extended}`, []];
  const query = { name: name as string, text: (text as string).replaceAll("$schema", schema), values: [owner, leaseMs, ...more] };
  return (await client.query<Renewed>(query)).rows;
}

export async function readWorkers(client: PgClient, schema: string): Promise<WorkerRecord[]> {
  const text = `WITH ${clock} SELECT id, workflows, version, started_at AS "startedAt", seen_at AS "seenAt", lease_until > now AS live
    FROM ${schema}.run_workers, clock WHERE seen_at > now - ${workerKeptMs} ORDER BY live DESC, seen_at DESC`;
  return (await client.query<WorkerRecord>(text)).rows;
}

export async function removeWorker(client: PgClient, schema: string, owner: string): Promise<void> {
  await client.query(`DELETE FROM ${schema}.run_workers WHERE id = $1`, [owner]);
}

export async function readHeld(client: PgClient, schema: string, owner: string, limit: number): Promise<HeldRun[]> {
  return (await client.query<HeldRun>(`SELECT id, workflow FROM ${schema}.runs WHERE owner = $1 LIMIT $2`, [owner, limit])).rows;
}

/** Jumps from name to name through the index: one probe for each workflow, however many runs it has. */
export async function readWorkflows(client: PgClient, schema: string, after: string, limit: number): Promise<string[]> {
  const next = (than: string) => `(SELECT r.workflow FROM ${schema}.runs r WHERE r.workflow > ${than} ORDER BY r.workflow LIMIT 1)`;
  const text = `WITH RECURSIVE names(name) AS (
      SELECT ${next("$1")} UNION ALL SELECT ${next("n.name")} FROM names n WHERE n.name IS NOT NULL)
    SELECT name FROM names WHERE name IS NOT NULL LIMIT $2`;
  return (await client.query<{ name: string }>(text, [after, limit])).rows.map(({ name }) => name);
}
