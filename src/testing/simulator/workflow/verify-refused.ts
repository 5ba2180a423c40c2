import type { RunRecord } from "../../../core/runs/run.js";
import { decodeError } from "../../../core/values/stored-error.js";
import { RunNotWritableError } from "../../../workflow/define/errors.js";
import { decodeEvents } from "../../../workflow/journal/codec.js";
import type { Event } from "../../../workflow/journal/event.js";
import { replayJournal } from "../../replay-journal.js";
import { PromiseBroken } from "../observer.js";
import type { KnownRun } from "./known-run.js";
import type { WorkflowSimulation } from "./simulation.js";

/** Checks that a run with a rejected entry of its last owner failed for that reason, and that its journal has the outcomes of its steps. */
export function checkRefusals({ refusals }: WorkflowSimulation, run: KnownRun, { status, output }: RunRecord): void {
  const refused = refusals.last(run);
  const isNotWritable = status === "failed" && decodeError(output ?? "{}").name === RunNotWritableError.kind;
  if (isNotWritable && refused.length === 0)
    throw new PromiseBroken(`${run.id}: failed as not writable, but the store rejected none of its entries`);
  if (refused.length > 0 && !isNotWritable && status !== "cancelled")
    throw new PromiseBroken(`${run.id}: ${status}, although the store rejected an entry of its last owner`);
  const written = new Set(run.entries.flatMap(({ events }) => decodeEvents(events)).flatMap(verdictOf));
  for (const verdict of refused.flatMap(({ events }) => events).flatMap(verdictOf))
    if (!written.has(verdict)) throw new PromiseBroken(`${run.id}: ${verdict} was in a rejected entry, and the journal does not have it`);
}

function verdictOf(event: Event): string[] {
  const isVerdict = event.type === "done" || event.type === "fail" || event.type === "doubt";
  return isVerdict ? [`${event.type} ${event.id} attempt ${event.attempt}`] : [];
}

/** The journal before the end must still be replayable: another worker would have continued from it if the owner had died there. */
export async function checkReplayBeforeEnd({ play, memory }: WorkflowSimulation, run: KnownRun, record: RunRecord): Promise<void> {
  const journal = (memory.journals.get(run.id) ?? []).slice(0, entriesBeforeEnd(run));
  const replayed = await replayJournal({ workflow: play.workflow, run: record, journal });
  if (replayed.kind === "diverged")
    throw new PromiseBroken(`${run.id}: the journal before the rejected entry cannot be replayed: ${replayed.why}`);
}

/** The number of entries before the one with the end. That entry of a run that was rejected may lack requests and values. */
export function entriesBeforeEnd({ entries }: KnownRun): number {
  return entries.findIndex(({ events }) => decodeEvents(events).some(({ type }) => type === "end"));
}
