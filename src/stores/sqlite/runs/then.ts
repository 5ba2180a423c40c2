import type { Entry } from "../../../core/runs/operation.js";
import type { Prepared } from "../connection/prepared.js";
import { dropHooks } from "./hooks.js";
import { sendMail } from "./mail.js";
import { text } from "./row.js";

const hold = "UPDATE onceflow_runs SET consumed = ? WHERE no = ?";
/** Mail that came while it was owned woke nobody: so it is compared here, on the row itself. */
const release = `UPDATE onceflow_runs SET owner = NULL, status = ?, trouble = ?, consumed = coalesce(?, consumed),
  wake_at = CASE WHEN mail > coalesce(?, consumed) THEN ? ELSE ? END, avoid = ?, avoid_until = ? WHERE no = ?`;
const end = `UPDATE onceflow_runs SET owner = NULL, wake_at = NULL, status = ?, output = ?, consumed = coalesce(?, consumed),
  ended_at = ?, unsettled = ?, expires_at = CASE WHEN ? = 0 THEN ? + retention_ms END WHERE no = ?`;
const setTrial = "UPDATE onceflow_runs SET deaths = ?, crashes = ?, alone = ? WHERE no = ?";
/** Most runs have neither parent nor hooks: their end is one statement. */
const endAlone = `${end} AND parent IS NULL AND NOT EXISTS (SELECT 1 FROM onceflow_hooks h WHERE h.run = onceflow_runs.no)`;
const selectParent = "SELECT parent FROM onceflow_runs WHERE no = ?";

/**
 * What becomes of the run itself with an entry. Whoever calls has made sure that the entry is in, or may be. Returns
 * the parent that got mail.
 */
export function writeThen(
  sql: Prepared,
  run: { no: number; id: string },
  { then, consumed, trial }: Entry,
  now: number,
): string | undefined {
  if (trial) sql(setTrial).run(trial.deaths, trial.crashes, trial.alone ? 1 : 0, run.no);
  if (then.kind === "hold") {
    if (consumed !== null) sql(hold).run(consumed, run.no);
    return undefined;
  }
  if (then.kind === "release") {
    // Words for people: better without its NUL than a run that cannot be put down.
    const trouble = then.trouble?.replaceAll("\0", "\uFFFD") ?? null;
    const { workers = [], until = null } = then.avoid ?? {};
    const avoid = workers.length === 0 ? [null, null] : [JSON.stringify(workers), until];
    sql(release).run(then.status, trouble, consumed, consumed, now, then.wakeAt, ...avoid, run.no);
    return undefined;
  }
  const unsettled = then.unsettled ?? 0;
  const values = [then.status, text(then.output), consumed, now, unsettled, unsettled, now, run.no];
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
