import { conflictsOf as conflicts } from "../../../core/runs/hook-conflicts.js";
import type { Entry, HookChange } from "../../../core/runs/operation.js";
import type { Prepared } from "../connection/prepared.js";
import { text } from "./row.js";

const insert = `INSERT INTO onceflow_hooks (token, run, about, metadata, created_at) VALUES (?, ?, ?, ?, ?)
  ON CONFLICT (token) DO NOTHING`;
const drop = "DELETE FROM onceflow_hooks WHERE token = ? AND run = ?";
const dropAll = "DELETE FROM onceflow_hooks WHERE run = ?";
const selectHook = "SELECT run, about FROM onceflow_hooks WHERE token = ?";

export function changeHooks(sql: Prepared, run: number, changes: readonly HookChange[], now: number): void {
  for (const change of changes) {
    if ("add" in change) sql(insert).run(text(change.add), run, text(change.about), text(change.metadata), now);
    else sql(drop).run(text(change.drop), run);
  }
}

export function dropHooks(sql: Prepared, run: number): void {
  sql(dropAll).run(run);
}

/** Asked after the write, and again after a lost reply. */
export function conflictsOf(sql: Prepared, run: number, entry: Entry | undefined): readonly string[] {
  return conflicts(entry, run, (token) => sql(selectHook).get(text(token)) as { run: number; about: string } | undefined);
}
