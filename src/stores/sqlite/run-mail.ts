import type { RunAnswer, Send } from "../../core/run-operation.js";
import type { Prepared } from "./prepared.js";
import { text } from "./run-row.js";

const selectByRun = "SELECT no, id, mail, ended_at AS endedAt FROM onceflow_runs WHERE id = ?";
const selectByToken = `SELECT r.no, r.id, r.mail, r.ended_at AS endedAt, h.about
  FROM onceflow_hooks h JOIN onceflow_runs r ON r.no = h.run WHERE h.token = ?`;
const insert = `INSERT INTO onceflow_mail (run, seq, key, kind, about, payload, at) VALUES (?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT (run, key) DO NOTHING`;
/** Who owns a run hears of its mail with the next renewal; nobody's run becomes due. */
const count = "UPDATE onceflow_runs SET mail = ?, wake_at = CASE WHEN owner IS NULL THEN ? ELSE wake_at END WHERE no = ?";

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
  if (run.endedAt !== null) return { kind: "ended", run: run.id };
  const seq = run.mail + 1;
  // As JSON, because it may hold a NUL: the key of a child's end does.
  const sent = sql(insert).run(run.no, seq, JSON.stringify(key), kind, text(run.about ?? about), text(payload), now);
  if (Number(sent.changes) === 0) return { kind: "sent", run: run.id, duplicate: true };
  sql(count).run(seq, now, run.no);
  return { kind: "sent", run: run.id, duplicate: false };
}
