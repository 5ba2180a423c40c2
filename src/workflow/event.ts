import type { ChunkKind } from "../core/chunk.js";
import { mustBeClear } from "../core/cipher.js";

/**
 * What a journal is made of. Each event names what it is about by `id`: "charge#0" is the first call of the step
 * "charge" in its run, "charge:order-1" the call that its `key` option named so, "sleep#2" the third sleep.
 *
 * Requests are what the code asked for; deliveries are what it was told, in this order; notes are neither.
 */
export type Event =
  /** A step's attempt begins; with attempt 1 also the request, with 0 only that. `fingerprint`: of its arguments. */
  | readonly [type: "step", id: string, at: number, attempt: number, fingerprint: string]
  | readonly [type: "done", id: string, at: number, attempt: number, value: string, how?: How]
  /** With `retryAt` a note; without, the step has failed for good. */
  | readonly [type: "fail", id: string, at: number, attempt: number, error: string, retryAt: number | null, how?: How]
  /** Whether this attempt happened can't be told from here. */
  | readonly [type: "doubt", id: string, at: number, attempt: number, why: string]
  | readonly [type: "sleep", id: string, at: number, until: number]
  | readonly [type: "woke", id: string, at: number]
  /** `url`: where a webhook is served. */
  | readonly [type: "hook", id: string, at: number, token: string, url?: string]
  | readonly [type: "hooked", id: string, at: number, conflict: boolean]
  | readonly [type: "got", id: string, at: number, payload: string]
  | readonly [type: "drop", id: string, at: number]
  | readonly [type: "child", id: string, at: number, run: string, workflow: string]
  /** A chunk that the code has written, or the end of a stream; the chunk itself is in the stream. */
  | readonly [type: "write", id: string, at: number, what: ChunkKind]
  | readonly [type: "ended", id: string, at: number, status: string, output: string | null]
  /** The body of a step aborted a controller that the code had handed to it. */
  | readonly [type: "aborted", id: string, at: number, reason: string]
  /** From here on the code is told nothing more. */
  | readonly [type: "cancel", id: string, at: number]
  /** It diverged: mail after this one is counted as taken in, so that it does not wake the run at once, and was not. */
  | readonly [type: "park", id: string, at: number, mail: number]
  /** The code matches again: the parked mail is taken in with this entry. */
  | readonly [type: "unpark", id: string, at: number]
  /** In the place of a transaction's entry, whose commit can no longer come. */
  | readonly [type: "fence", id: string, at: number]
  /** A worker took the run over from an owner that fell silent. */
  | readonly [type: "claim", id: string, at: number]
  | readonly [type: "end", id: string, at: number, output: string | null];

/** Not by the body itself: found by `reconcile`, said by a person, or left behind when the run ended. */
export type How = "reconciled" | "resolved" | "abandoned" | "timeout" | "crashed";

export type EventOf<Type extends Event[0]> = Extract<Event, readonly [type: Type, ...unknown[]]>;

export function isRequest(event: Event): boolean {
  const [type, , , attempt] = event;
  if (type === "step") return attempt <= 1;
  return type === "sleep" || type === "hook" || type === "child" || type === "drop" || type === "write";
}

const deliveries: ReadonlySet<Event[0]> = new Set(["done", "woke", "hooked", "got", "ended", "aborted", "cancel"]);

export function isDelivery(event: Event): boolean {
  const [type] = event;
  if (type === "fail") return event[5] === null;
  return deliveries.has(type);
}

export function encodeEvents(events: readonly Event[]): string {
  return JSON.stringify(events);
}

export function decodeEvents(text: string): Event[] {
  mustBeClear(text);
  return JSON.parse(text) as Event[];
}
