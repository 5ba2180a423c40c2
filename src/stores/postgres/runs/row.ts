import type { Append, StartRun } from "../../../core/runs/operation.js";
import type { Columns, Scalar } from "../parameters/columns.js";

/** The columns of a run under the names of `RunRecord`. */
export const selectedRun = `id, workflow, status, input, fingerprint, output, trouble, owner, epoch, wake_at AS "wakeAt", mail, consumed,
  parent, creator, created_at AS "createdAt", started_at AS "startedAt", ended_at AS "endedAt", retention_ms AS "retentionMs",
  deaths, crashes, alone, coalesce(avoid, '{}') AS avoid, avoid_until AS "avoidUntil", unsettled,
  deadline_at AS "deadlineAt", stop_at AS "stopAt", scope, attributes, error_name AS "errorName", error_code AS "errorCode"`;
export const selectedEntry = "seq, epoch, at, events";
export const selectedMail = "seq, kind, about, payload, at";
export const selectedHook = `token, run, about, metadata, created_at AS "createdAt"`;

export const selectedLogEntry = "no, id, at, actor, action, subject, reason, detail";

export const startColumns: Columns = [
  ["id", "text"],
  ["workflow", "text"],
  ["input", "text"],
  ["fingerprint", "text"],
  ["parent", "text"],
  ["creator", "text"],
  ["retention_ms", "bigint"],
  ["owner", "text"],
  ["lease_ms", "bigint"],
  ["events", "text"],
  ["scope", "text"],
  ["attributes", "text"],
];

/** `owner`, `lease_ms` and `events` are null for a run without an owner yet. */
export function startValues(start: StartRun): Scalar[] {
  const { id, workflow, input, fingerprint, parent, creator, retentionMs, first, scope = "", attributes = null } = start;
  const { owner = null, leaseMs = null, entry } = first ?? {};
  return [id, workflow, input, fingerprint, parent, creator, retentionMs, owner, leaseMs, entry?.events ?? null, scope, attributes];
}

/** SQL that inserts rows `a` of `startColumns` as runs, at the time `now`. */
export function insertRuns(from: string): string {
  return `INSERT INTO $schema.runs (id, workflow, status, input, fingerprint, owner, epoch, wake_at, parent, creator, created_at, started_at,
    retention_ms, scope, attributes)
  SELECT a.id, a.workflow, CASE WHEN a.owner IS NULL THEN 'pending' ELSE 'running' END::$schema.run_status, a.input, a.fingerprint, a.owner,
    CASE WHEN a.owner IS NULL THEN 0 ELSE 1 END, now + coalesce(a.lease_ms, 0), a.parent, a.creator, now,
    CASE WHEN a.owner IS NOT NULL THEN now END, a.retention_ms, a.scope, a.attributes
  FROM ${from}`;
}

export const entryColumns: Columns = [
  ["id", "text"],
  ["creator", "text"],
  ["seq", "int"],
  ["epoch", "int"],
  ["events", "text"],
];

export function entryValues({ id, creator, seq, epoch, entry: { events } }: Append): Scalar[] {
  return [id, creator, seq, epoch, events];
}

export const changeColumns: Columns = [
  ...entryColumns,
  ["consumed", "int"],
  ["status", "text"],
  ["over", "boolean"],
  ["said", "text"],
  ["wake_at", "bigint"],
  ["error_name", "text"],
  ["error_code", "text"],
];

/** `status` is null if the owner keeps the run. `said`: the output of a run that ends, or the trouble of one that is released. */
export function changeValues(append: Append): Scalar[] {
  const { consumed, then } = append.entry;
  const values = [...entryValues(append), consumed];
  if (then.kind === "hold") return [...values, null, false, null, null, null, null];
  if (then.kind === "end") return [...values, then.status, true, then.output, null, then.error?.name ?? null, then.error?.code ?? null];
  return [...values, then.status, false, then.trouble, then.wakeAt, null, null];
}

/**
 * SQL assignments that apply a row `a` of `changeColumns` to its run `r`, at the time `now`. Evaluated on the locked row: mail that
 * was sent while the statement waited for the lock counts, and wakes the run.
 */
export const changedRun = `consumed = coalesce(a.consumed, r.consumed),
    owner = CASE WHEN a.status IS NULL THEN r.owner END,
    status = coalesce(a.status::$schema.run_status, r.status),
    wake_at = CASE WHEN a.status IS NULL THEN r.wake_at WHEN a.over THEN NULL
      WHEN r.mail > coalesce(a.consumed, r.consumed) THEN now ELSE a.wake_at END,
    output = CASE WHEN a.over THEN a.said ELSE r.output END,
    trouble = CASE WHEN a.over OR a.status IS NULL THEN r.trouble ELSE a.said END,
    avoid = CASE WHEN a.over OR a.status IS NULL THEN r.avoid END,
    avoid_until = CASE WHEN a.over OR a.status IS NULL THEN r.avoid_until END,
    error_name = a.error_name,
    error_code = a.error_code,
    ended_at = CASE WHEN a.over THEN now END,
    expires_at = CASE WHEN a.over THEN now + r.retention_ms END`;
