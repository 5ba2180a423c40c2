import { type Chunk, endCount, type Voided } from "../../../core/runs/chunk.js";
import type { Event } from "../event.js";

/** The writer id of workflow code. No step call has this id. After a retry it is another one: what the code wrote after the cut keeps its place in the stream. */
export function codeWriter(retries: number): string {
  return retries === 0 ? "run" : `run~${retries}`;
}

/**
 * Void chunks in place of those that the code has written after the cut of a retry: readers skip them, and an end among them does not end the stream. `events`: what is
 * left of `journal` after earlier retries; `dropped`: the requests that this one forgets.
 */
export function forgottenChunks(journal: readonly Event[], events: readonly Event[], dropped: ReadonlySet<string>): Chunk[] {
  const writers = writersOf(journal);
  const counts = new Map<string, number>();
  const forgotten: Chunk[] = [];
  for (const event of events) {
    if (event.type !== "write") continue;
    const stream = event.id.slice("write ".length, event.id.lastIndexOf("#"));
    const n = event.kind === "end" || event.kind === "error" ? endCount : (counts.get(stream) ?? 0);
    if (n !== endCount) counts.set(stream, n + 1);
    const writer = writers.get(event) ?? codeWriter(0);
    if (dropped.has(event.id)) forgotten.push({ stream, writer, n, attempt: 2, kind: "void", data: null });
  }
  return forgotten;
}

/** All chunks of the steps that a retry forgets, of every attempt, also the ends of streams: readers skip them. */
export function voidedSteps(events: readonly Event[], dropped: ReadonlySet<string>): Voided[] {
  const attempts = new Map<string, number>();
  for (const event of events)
    if (event.type === "step" && event.attempt > 0 && dropped.has(event.id)) attempts.set(event.id, event.attempt);
  return [...attempts].map(([writer, last]) => ({ writer, attempt: last + 1 }));
}

function writersOf(journal: readonly Event[]): ReadonlyMap<Event, string> {
  const writers = new Map<Event, string>();
  let retries = 0;
  for (const event of journal) {
    if (event.type === "retry") retries += 1;
    if (event.type === "write") writers.set(event, codeWriter(retries));
  }
  return writers;
}
