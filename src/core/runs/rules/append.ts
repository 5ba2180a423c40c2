import type { Append, RunAnswer } from "../operation.js";
import { canAppend, isHeld } from "./fence.js";
import { conflictsAfter } from "./hooks.js";
import { followEntry } from "./start.js";
import type { RunTable } from "./table.js";

/** Writes an entry of a run's owner and everything that belongs to it, or nothing. */
export function appendEntry(table: RunTable, append: Append): RunAnswer {
  const { id, entry } = append;
  const fenced = entry.events === null ? fenceByEpoch(table, append) : fenceByNumber(table, append, entry.events);
  if (fenced === "refused") return { kind: "overtaken" };
  if (fenced === "passed") followEntry(table, id, entry);
  return { kind: "appended", now: table.now(), conflicts: conflictsAfter(table, id, entry) };
}

/** "repeated": the owner's own entry has this number. Its reply was lost, and everything that belongs to it was written then. */
type Fenced = "passed" | "repeated" | "refused";

/** Without events no journal entry is written: the epoch is the fence. */
function fenceByEpoch(table: RunTable, append: Append): Fenced {
  const run = table.run(append.id);
  return run !== undefined && isHeld(run, append) ? "passed" : "refused";
}

/** The entry number is the fence: a former owner finds it used by its successor. An owner of an earlier run with this id is refused first. */
function fenceByNumber(table: RunTable, { id, creator, epoch, seq }: Append, events: string): Fenced {
  const entry = { seq, epoch, at: table.now(), events };
  if (table.insertFenced?.({ id, creator }, entry)) return "passed";
  const run = table.run(id);
  if (run === undefined || run.creator !== creator) return "refused";
  if (table.entry(id, seq)?.epoch === epoch) return "repeated";
  if (!canAppend(run, table.lastEntry(id), entry)) return "refused";
  table.insertEntry(id, entry);
  return "passed";
}
