import type { Entry } from "../../core/run-operation.js";
import type { Prepared } from "./prepared.js";
import { dropHooks } from "./run-hooks.js";
import { sendMail } from "./run-mail.js";
import { text } from "./run-row.js";

const hold = "UPDATE onceflow_runs SET consumed = ? WHERE no = ?";
/** Mail that came while it was owned woke nobody: so it is compared here, on the row itself. */
const release = `UPDATE onceflow_runs SET owner = NULL, status = ?, trouble = ?, consumed = coalesce(?, consumed),
  wake_at = CASE WHEN mail > coalesce(?, consumed) THEN ? ELSE ? END WHERE no = ?`;
const end = `UPDATE onceflow_runs SET owner = NULL, wake_at = NULL, status = ?, output = ?, consumed = coalesce(?, consumed),
  ended_at = ?, expires_at = ? + retention_ms WHERE no = ?`;
/** Most runs have neither parent nor hooks: their end is one statement. */
const endAlone = `${end} AND parent IS NULL AND NOT EXISTS (SELECT 1 FROM onceflow_hooks h WHERE h.run = onceflow_runs.no)`;
const selectParent = "SELECT parent FROM onceflow_runs WHERE no = ?";

/**
 * What becomes of the run itself with an entry. Whoever calls has made sure that the entry is in, or may be. Returns
 * the parent that got mail.
 */
export function writeThen(sql: Prepared, run: { no: number; id: string }, { then, consumed }: Entry, now: number): string | undefined {
  if (then.kind === "hold") {
    if (consumed !== null) sql(hold).run(consumed, run.no);
    return undefined;
  }
  if (then.kind === "release") {
    // Words for people: better without its NUL than a run that cannot be put down.
    const trouble = then.trouble?.replaceAll("\0", "\uFFFD") ?? null;
    sql(release).run(then.status, trouble, consumed, consumed, now, then.wakeAt, run.no);
    return undefined;
  }
  const values = [then.status, text(then.output), consumed, now, now, run.no];
  if (Number(sql(endAlone).run(...values).changes) === 1) return undefined;
  sql(end).run(...values);
  dropHooks(sql, run.no);
  const { parent } = sql(selectParent).get(run.no) as { parent: string | null };
  if (parent === null) return undefined;
  const payload = JSON.stringify([then.status, then.output]);
  const key = `child\0${run.id}`;
  const { kind } = sendMail(sql, { to: { run: parent }, kind: "child", about: run.id, payload, key }, now);
  return kind === "sent" ? parent : undefined;
}
