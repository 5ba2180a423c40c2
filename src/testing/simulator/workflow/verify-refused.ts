import type { RunRecord } from "../../../core/runs/run.js";
import { decodeError } from "../../../core/values/stored-error.js";
import { RunNotWritableError } from "../../../workflow/define/errors.js";
import { decodeEvents } from "../../../workflow/journal/codec.js";
import type { Event } from "../../../workflow/journal/event.js";
import { replayJournal } from "../../replay-journal.js";
import { PromiseBroken } from "../observer.js";
import type { KnownRun } from "./run-observer.js";
import type { WorkflowSimulation } from "./simulation.js";

/** A run whose owner heard of a refusal has failed because of it, and its journal says what its steps have done. */
export function checkRefusals({ refusals }: WorkflowSimulation, run: KnownRun, { status, output }: RunRecord): void {
  const refused = refusals.last(run);
  const failedSo = status === "failed" && decodeError(output ?? "{}").name === RunNotWritableError.kind;
  if (failedSo && refused.length === 0) throw new PromiseBroken(`${run.id}: failed as not writable, and nothing of it was refused`);
  if (refused.length > 0 && !failedSo && status !== "cancelled")
    throw new PromiseBroken(`${run.id}: ${status}, and the store had refused an entry of its last owner`);
  const written = new Set(run.entries.flatMap(({ events }) => decodeEvents(events)).flatMap(verdictOf));
  for (const verdict of refused.flatMap(({ events }) => events).flatMap(verdictOf))
    if (!written.has(verdict)) throw new PromiseBroken(`${run.id}: ${verdict} was in a refused entry, and is lost`);
}

function verdictOf(event: Event): string[] {
  const isVerdict = event.type === "done" || event.type === "fail" || event.type === "doubt";
  return isVerdict ? [`${event.type} ${event.id} attempt ${event.attempt}`] : [];
}

/** What was written before the end is what the code has asked for and was told: an owner that had died there would have had a successor. */
export async function checkReplayBeforeEnd({ play, memory }: WorkflowSimulation, run: KnownRun, record: RunRecord): Promise<void> {
  const journal = (memory.journals.get(run.id) ?? []).slice(0, entriesBeforeEnd(run));
  const replayed = await replayJournal({ workflow: play.workflow, run: record, journal });
  if (replayed.kind === "diverged") throw new PromiseBroken(`${run.id}: refused, and what it had written diverges: ${replayed.why}`);
}

/** The entry with the end of a refused run may lack requests and values. */
export function entriesBeforeEnd({ entries }: KnownRun): number {
  return entries.findIndex(({ events }) => decodeEvents(events).some(({ type }) => type === "end"));
}
