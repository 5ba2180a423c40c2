import type { Entry, HookChange } from "../../core/run-operation.js";
import type { Prepared } from "./prepared.js";
import { text } from "./run-row.js";

const insert = `INSERT INTO onceflow_hooks (token, run, about, metadata, created_at) VALUES (?, ?, ?, ?, ?)
  ON CONFLICT (token) DO NOTHING`;
const drop = "DELETE FROM onceflow_hooks WHERE token = ? AND run = ?";
const dropAll = "DELETE FROM onceflow_hooks WHERE run = ?";
const selectRun = "SELECT run FROM onceflow_hooks WHERE token = ?";

export function changeHooks(sql: Prepared, run: number, changes: readonly HookChange[], now: number): void {
  for (const change of changes) {
    if ("add" in change) sql(insert).run(text(change.add), run, text(change.about), text(change.metadata), now);
    else sql(drop).run(text(change.drop), run);
  }
}

export function dropHooks(sql: Prepared, run: number): void {
  sql(dropAll).run(run);
}

const none: readonly string[] = [];

/** The tokens that an entry wanted, and that are not this run's: asked after the write, and again after a lost reply. */
export function conflictsOf(sql: Prepared, run: number, entry: Entry | undefined): readonly string[] {
  if (entry === undefined || entry.hooks.length === 0) return none;
  const wanted = entry.hooks.flatMap((change) => ("add" in change ? [change.add] : []));
  return wanted.filter((token) => (sql(selectRun).get(text(token)) as { run: number } | undefined)?.run !== run);
}
