import type { Append, RunAnswer } from "../operation.js";
import { canAppend, isHeld } from "./fence.js";
import { conflictsAfter } from "./hooks.js";
import { followEntry } from "./start.js";
import type { RunTable } from "./table.js";

/** Writes an entry of a run's owner and everything that goes with it, or nothing. */
export function appendEntry(table: RunTable, append: Append): RunAnswer {
  const { id, entry } = append;
  const fenced = entry.events === null ? fenceByEpoch(table, append) : fenceByPlace(table, append, entry.events);
  if (fenced === "refused") return { kind: "overtaken" };
  if (fenced === "passed") followEntry(table, id, entry);
  return { kind: "appended", now: table.now(), conflicts: conflictsAfter(table, id, entry) };
}

/** "repeated": the owner's own entry stands there. The reply to it was lost, and everything that goes with it was done then. */
type Fenced = "passed" | "repeated" | "refused";

/** Without events no place in the journal is taken: the epoch is the fence. */
function fenceByEpoch(table: RunTable, { id, epoch }: Append): Fenced {
  const run = table.run(id);
  return run !== undefined && isHeld(run, epoch) ? "passed" : "refused";
}

/** The place in the journal is the fence: an owner that was overtaken finds it taken by its successor. */
function fenceByPlace(table: RunTable, { id, epoch, seq }: Append, events: string): Fenced {
  const entry = { seq, epoch, at: table.now(), events };
  if (table.insertFenced?.(id, entry)) return "passed";
  const run = table.run(id);
  if (run === undefined) return "refused";
  if (table.entry(id, seq)?.epoch === epoch) return "repeated";
  if (!canAppend(run, table.lastEntry(id), entry)) return "refused";
  table.insertEntry(id, entry);
  return "passed";
}
