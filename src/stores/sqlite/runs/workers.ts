import type { HeldRun, RenewQuery } from "../../../core/runs/operation.js";
import { type WorkerRecord, workerKeptMs } from "../../../core/runs/run.js";
import type { Prepared } from "../connection/prepared.js";
import { storeNow, text } from "./row.js";

const save = `INSERT INTO onceflow_run_workers (id, workflows, version, started_at, seen_at, lease_until) VALUES (?, ?, ?, ?, ?, ?)
  ON CONFLICT (id) DO UPDATE SET workflows = excluded.workflows, version = excluded.version, seen_at = excluded.seen_at,
    lease_until = excluded.lease_until`;
const select = `SELECT id, workflows, version, started_at AS "startedAt", seen_at AS "seenAt", lease_until > ? AS live
  FROM onceflow_run_workers WHERE seen_at > ? ORDER BY live DESC, seen_at DESC`;
const selectSilent = "SELECT 1 FROM onceflow_run_workers WHERE seen_at <= ? LIMIT 1";
const removeSilent = "DELETE FROM onceflow_run_workers WHERE seen_at <= ?";
const remove = "DELETE FROM onceflow_run_workers WHERE id = ?";

interface WorkerRow extends Omit<WorkerRecord, "workflows" | "live"> {
  readonly workflows: string;
  readonly live: 0 | 1;
}

export function saveWorker(sql: Prepared, { owner, leaseMs, signOfLife }: Required<RenewQuery>, now: number): void {
  const { workflows, version } = signOfLife;
  sql(save).run(text(owner), JSON.stringify(workflows), text(version), now, now, now + leaseMs);
}

export function listWorkers(sql: Prepared): WorkerRecord[] {
  const now = storeNow(sql);
  return (sql(select).all(now, now - workerKeptMs) as WorkerRow[]).map(({ id, workflows, version, startedAt, seenAt, live }) => ({
    ...{ id, workflows: JSON.parse(workflows) as string[], version, startedAt, seenAt, live: live === 1 },
  }));
}

export function removeWorker(sql: Prepared, owner: string): void {
  sql(remove).run(text(owner));
}

export function hasSilentWorkers(sql: Prepared, now: number): boolean {
  return sql(selectSilent).get(now - workerKeptMs) !== undefined;
}

export function removeSilentWorkers(sql: Prepared, now: number): void {
  sql(removeSilent).run(now - workerKeptMs);
}

/** Repeats the index's condition literally, so that SQLite uses the index. */
const selectHeld = `SELECT id, workflow FROM onceflow_runs INDEXED BY onceflow_runs_queue WHERE ended_at IS NULL AND owner = ? LIMIT ?`;
/** Jumps from name to name through an index: one probe for each workflow, however many runs it has. */
const selectWorkflows = `WITH RECURSIVE names(name) AS (
    SELECT (SELECT min(workflow) FROM onceflow_runs WHERE workflow > ?)
    UNION ALL
    SELECT (SELECT min(workflow) FROM onceflow_runs WHERE workflow > names.name) FROM names WHERE names.name IS NOT NULL)
  SELECT name FROM names WHERE name IS NOT NULL LIMIT ?`;

export function listHeld(sql: Prepared, owner: string, limit: number): HeldRun[] {
  return (sql(selectHeld).all(text(owner), limit) as HeldRun[]).map(({ id, workflow }) => ({ id, workflow }));
}

export function listWorkflows(sql: Prepared, after: string, limit: number): string[] {
  return (sql(selectWorkflows).all(text(after), limit) as { name: string }[]).map(({ name }) => name);
}
