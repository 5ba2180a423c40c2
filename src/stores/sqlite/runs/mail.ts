import type { RunAnswer, Send } from "../../../core/runs/operation.js";
import type { Prepared } from "../connection/prepared.js";
import { text } from "./row.js";

const selectByRun = "SELECT no, id, mail, ended_at AS endedAt FROM onceflow_runs WHERE id = ?";
const selectByToken = `SELECT r.no, r.id, r.mail, r.ended_at AS endedAt, h.about
  FROM onceflow_hooks h JOIN onceflow_runs r ON r.no = h.run WHERE h.token = ?`;
const insert = `INSERT INTO onceflow_mail (run, seq, key, kind, about, payload, at) VALUES (?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT (run, key) DO NOTHING`;
/** Who owns a run hears of its mail with the next renewal; nobody's run becomes due for every worker, and keeps its place if it was. */
const count = `UPDATE onceflow_runs SET mail = ?, wake_at = CASE WHEN owner IS NULL THEN min(?, coalesce(wake_at, 9e15)) ELSE wake_at END,
  avoid = CASE WHEN owner IS NOT NULL THEN avoid END, avoid_until = CASE WHEN owner IS NOT NULL THEN avoid_until END WHERE no = ?`;

const selectKey = "SELECT 1 FROM onceflow_mail WHERE run = ? AND key = ?";

interface Addressee {
  readonly no: number;
  readonly id: string;
  readonly mail: number;
  readonly endedAt: number | null;
  readonly about?: string;
}

/** Inside a write transaction: between reading the run's counter and writing it nobody else can send. */
export function sendMail(sql: Prepared, { to, kind, about, payload, key }: Omit<Send, "verb">, now: number): RunAnswer {
  const found = "run" in to ? sql(selectByRun).get(text(to.run)) : sql(selectByToken).get(text(to.token));
  const run = found as Addressee | undefined;
  if (run === undefined) return { kind: "absent" };
  // As JSON, because it may hold a NUL: the key of a child's end does.
  const name = JSON.stringify(key);
  if (run.endedAt !== null) {
    // The reply was lost, and the run has ended since: the mail had arrived all the same.
    const arrived = sql(selectKey).get(run.no, name) !== undefined;
    return arrived ? { kind: "sent", run: run.id, duplicate: true } : { kind: "ended", run: run.id };
  }
  const seq = run.mail + 1;
  const sent = sql(insert).run(run.no, seq, name, kind, text(run.about ?? about), text(payload), now);
  if (Number(sent.changes) === 0) return { kind: "sent", run: run.id, duplicate: true };
  sql(count).run(seq, now, run.no);
  return { kind: "sent", run: run.id, duplicate: false };
}
