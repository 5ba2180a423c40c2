import type { Claimed } from "../../../core/runs/operation.js";
import type { HookRecord, JournalEntry, Mail } from "../../../core/runs/run.js";
import type { Prepared } from "../connection/prepared.js";
import { type OfRun, type RunRow, selectedEntry, selectedHook, selectedMail, selectedRun, toEntry, toHook, toMail, toRun } from "./row.js";

const selectRuns = `SELECT r.no, ${selectedRun} FROM json_each(?) n CROSS JOIN onceflow_runs r WHERE r.no = n.value`;
const selectJournals = `SELECT j.run AS no, ${selectedEntry} FROM json_each(?) n CROSS JOIN onceflow_journal j
  WHERE j.run = n.value AND j.seq > 0 ORDER BY n.key, j.seq`;
const selectMail = `SELECT m.run AS no, ${selectedMail} FROM json_each(?) n CROSS JOIN onceflow_runs r CROSS JOIN onceflow_mail m
  WHERE r.no = n.value AND m.run = r.no AND m.seq > r.consumed ORDER BY n.key, m.seq`;
const selectHooks = `SELECT h.run AS no, ${selectedHook} FROM json_each(?) n CROSS JOIN onceflow_hooks h
  WHERE h.run = n.value ORDER BY n.key, h.no`;

/** Reads everything that is needed to continue these runs, by number: four reads for any number of runs, in a transaction of the caller. */
export function loadRuns(sql: Prepared, numbers: readonly number[]): Map<number, Omit<Claimed, "lapsed">> {
  const asked = JSON.stringify(numbers);
  const rows = <T>(select: string) => sql(select).all(asked) as (T & OfRun)[];
  const journals = byRun(rows<JournalEntry>(selectJournals));
  const mail = byRun(rows<Mail>(selectMail));
  const hooks = byRun(rows<Omit<HookRecord, "run">>(selectHooks));
  const loaded = rows<RunRow>(selectRuns).map((row) => {
    const parts = {
      run: toRun(row),
      journal: (journals.get(row.no) ?? []).map(toEntry),
      mail: (mail.get(row.no) ?? []).map(toMail),
      hooks: (hooks.get(row.no) ?? []).map((hook) => toHook(row.id, hook)),
    };
    return [row.no, parts] as const;
  });
  return new Map(loaded);
}

function byRun<T extends OfRun>(rows: readonly T[]): Map<number, T[]> {
  const groups = new Map<number, T[]>();
  for (const row of rows) {
    const group = groups.get(row.no);
    if (group === undefined) groups.set(row.no, [row]);
    else group.push(row);
  }
  return groups;
}
