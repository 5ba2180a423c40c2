import type { RunAnswer, Send } from "../../../core/runs/operation.js";
import { serverNow } from "../ledger/read.js";
import type { Scalar } from "../parameters/columns.js";
import { notify } from "./notify.js";

/**
 * Sends mail to the run `$1`, or to the run with the hook `$1`, in one statement, atomic by itself.
 *
 *   box    the run as it is seen now, and whether it already has this mail
 *   taken  the next mail number, from the locked row of the run. A run without an owner becomes due for every worker, unless it is
 *          paused and the mail does not end that; if it is due already, it keeps its time
 *   mail   is written under that number
 *
 * Two things can change while the statement waits for the lock. The run ends, or its hook is dropped (every change of
 * hooks increases `hook_rev` of the same row): then no number is taken, and the mail has to be sent again. Or another process
 * sends the same mail: then the unique key raises an error, which undoes the statement.
 *
 * It repeats the rule of core/runs/rules/send.ts; test/runs compares them.
 */
export function mailStatement(to: "run" | "token"): string {
  const box =
    to === "run"
      ? "SELECT r.id, r.hook_rev, r.ended_at, $3::text AS about FROM $schema.runs r WHERE r.id = $1::text"
      : `SELECT r.id, r.hook_rev, r.ended_at, coalesce(h.about, $3::text) AS about FROM $schema.hooks h JOIN $schema.runs r ON r.id = h.run
      WHERE h.token = $1::text`;
  // `wakesRun` of core/runs/run.ts.
  const woken = "r.owner IS NULL AND (r.status <> 'paused' OR $2::text IN ('cancel', 'resume'))";
  return `WITH clock AS MATERIALIZED (SELECT ${serverNow} AS now),
    box AS MATERIALIZED (SELECT b.*, (SELECT true FROM $schema.mail m WHERE m.run = b.id AND m.key = $5::text) AS known FROM (${box}) b),
    taken AS (
      UPDATE $schema.runs r SET mail = r.mail + 1, wake_at = CASE WHEN ${woken} THEN least(r.wake_at, now) ELSE r.wake_at END,
        avoid = CASE WHEN ${woken} THEN NULL ELSE r.avoid END, avoid_until = CASE WHEN ${woken} THEN NULL ELSE r.avoid_until END
      FROM box b, clock
      WHERE r.id = b.id AND r.ended_at IS NULL AND b.known IS NULL${to === "token" ? " AND r.hook_rev = b.hook_rev" : ""}
      RETURNING r.id, r.mail, b.about),
    delivered AS (
      INSERT INTO $schema.mail (run, seq, kind, about, payload, key, at)
      SELECT id, mail, $2::text, about, $4::text, $5::text, now FROM taken, clock)
    SELECT json_build_object('run', id, 'ended', ended_at IS NOT NULL, 'known', known, 'sent', (SELECT count(${notify("id")}) FROM taken))::text
      AS answer FROM box`;
}

export interface Posted {
  readonly run: string;
  readonly ended: boolean;
  readonly known: true | null;
  readonly sent: number;
}

export function mailValues({ to, kind, about, payload, key }: Send): Scalar[] {
  return ["token" in to ? to.token : to.run, kind, about, payload, storedKey(key)];
}

export function postedAnswer(posted: Posted | undefined): RunAnswer | "again" {
  if (posted === undefined) return { kind: "absent" };
  const { run, ended, known, sent } = posted;
  // Even if the run has ended since: the reply was lost, but the mail had arrived.
  if (known) return { kind: "sent", run, duplicate: true };
  if (ended) return { kind: "ended", run };
  return sent === 1 ? { kind: "sent", run, duplicate: false } : "again";
}

/** Replaces NUL, which separates names in some keys, because PostgreSQL's text cannot contain it. No key contains the replacement. */
export function storedKey(key: string): string {
  return key.replaceAll("\0", "\u0001");
}
