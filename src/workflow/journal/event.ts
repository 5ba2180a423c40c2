import type { ChunkKind } from "../../core/runs/chunk.js";
import { mustBeClear } from "../../core/values/cipher.js";

/**
 * What a journal is made of. Each event names what it is about by `id`: "charge#0" is the first call of the step
 * "charge" in its run, "charge:order-1" the call that its `key` option named so, "sleep#2" the third sleep.
 *
 * Requests are what the code asked for; deliveries are what it was told, in this order; notes are neither.
 */
export type Event =
  /**
   * A step's attempt begins; with attempt 1 also the request, with 0 only that. `fingerprint`: of its arguments; with
   * "partial" of those parts that can be encoded. Version 0.1.0 wrote "" where one part could not be.
   */
  | readonly [type: "step", id: string, at: number, attempt: number, fingerprint: string, extent?: "partial"]
  /** The code called a step again under the key of an earlier call, with other arguments, and was refused. */
  | readonly [type: "mismatch", id: string, at: number, fingerprint: string]
  | readonly [type: "done", id: string, at: number, attempt: number, value: string, how?: How, by?: string]
  /**
   * With `retryAt` a note; without, the step has failed for good. `by`, here and above: names the writer of an entry after
   * the end of the run, where two callers could write the same words at the same time.
   */
  | readonly [type: "fail", id: string, at: number, attempt: number, error: string, retryAt: number | null, how?: How, by?: string]
  /** Whether this attempt happened can't be told from here. */
  | readonly [type: "doubt", id: string, at: number, attempt: number, why: string]
  | readonly [type: "sleep", id: string, at: number, until: number]
  | readonly [type: "woke", id: string, at: number]
  /** `url`: where a webhook is served. */
  | readonly [type: "hook", id: string, at: number, token: string, url?: string]
  /** `run`: the run that has the token, in a conflict. Journals of 0.1.0 do not have it. */
  | readonly [type: "hooked", id: string, at: number, conflict: boolean, run?: string]
  | readonly [type: "got", id: string, at: number, payload: string]
  | readonly [type: "drop", id: string, at: number]
  /** `check`: the code waits for "started", which says whether the run that has this id is the one that the code means. */
  | readonly [type: "child", id: string, at: number, run: string, workflow: string, check?: "check"]
  /** "input": the run was started with another input. "refused": the code got an error instead of the run. */
  | readonly [type: "started", id: string, at: number, found: "same" | "input" | "refused"]
  /** The code has asked for the result of a child whose id it chose. */
  | readonly [type: "await", id: string, at: number]
  /** A chunk that the code has written, or the end of a stream; the chunk itself is in the stream. */
  | readonly [type: "write", id: string, at: number, what: ChunkKind]
  /** `status`: how the child ended; "absent", when it was removed before; "cycle", when it waits for this run: see `findCycle`. */
  | readonly [type: "ended", id: string, at: number, status: string, output: string | null]
  /** The body of a step aborted a controller that the code had handed to it. */
  | readonly [type: "aborted", id: string, at: number, reason: string]
  /** From here on the code is told nothing more. */
  | readonly [type: "cancel", id: string, at: number]
  /** A person accepts the journaled call as the one that the code asks for, whatever its arguments are. */
  | readonly [type: "accept", id: string, at: number]
  /** It diverged: mail after this one is counted as taken in, so that it does not wake the run at once, and was not. */
  | readonly [type: "park", id: string, at: number, mail: number]
  /** The code matches again: the parked mail is taken in with this entry. */
  | readonly [type: "unpark", id: string, at: number]
  /** In the place of a transaction's entry, whose commit can no longer come. */
  | readonly [type: "fence", id: string, at: number]
  /**
   * A worker took the run over from an owner that fell silent. `crashes`, where it executes the run alone: how many owners
   * died so far that executed it alone; 0 after a person has asked for one more try.
   */
  | readonly [type: "claim", id: string, at: number, crashes?: number]
  /** The run was executed alone for long enough, and its process lives: it is no suspect any more. */
  | readonly [type: "cleared", id: string, at: number]
  | readonly [type: "end", id: string, at: number, output: string | null];

/**
 * Not by the body itself: found by `reconcile`, said by a person, or left behind when the run ended. late: by the body, in an
 * entry after the end of the run.
 */
export type How = "reconciled" | "resolved" | "abandoned" | "timeout" | "crashed" | "late";

export type EventOf<Type extends Event[0]> = Extract<Event, readonly [type: Type, ...unknown[]]>;

const requests: ReadonlySet<Event[0]> = new Set(["sleep", "hook", "child", "drop", "write", "mismatch"]);

export function isRequest(event: Event): boolean {
  const [type, , , attempt] = event;
  if (type === "step") return attempt <= 1;
  return requests.has(type);
}

const deliveries: ReadonlySet<Event[0]> = new Set(["done", "woke", "hooked", "got", "started", "ended", "aborted", "cancel"]);

export function isDelivery(event: Event): boolean {
  const [type] = event;
  if (type === "fail") return event[5] === null;
  return deliveries.has(type);
}

/** What the journal says of a call itself: claims of its run stand in between. */
export function withoutClaims(log: readonly Event[]): readonly Event[] {
  return log.filter(({ 0: type }) => type !== "claim");
}

export function encodeEvents(events: readonly Event[]): string {
  return JSON.stringify(events);
}

export function decodeEvents(text: string): Event[] {
  mustBeClear(text);
  return JSON.parse(text) as Event[];
}
