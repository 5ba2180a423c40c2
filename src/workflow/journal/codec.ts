import { mustBeDecrypted } from "../../core/values/cipher.js";
import type { Event } from "./event.js";

/**
 * Stored form of events: an entry is a JSON array of events, and an event is an array of its type, its id or owner, its time,
 * and its other fields in a fixed order. Optional fields come last and are omitted if absent. Only this file knows the order.
 * Journals of version 0.1.0 have the same form.
 *
 * To add a field: make it optional and last, and add it to the interface (event.ts), storedOf, eventOf and the table in
 * workflow-api.md.
 */
type Stored = readonly [type: string, about: string, at: number, ...rest: unknown[]];

export function encodeEvents(events: readonly Event[]): string {
  return JSON.stringify(events.map(storedOf));
}

export function decodeEvents(text: string): Event[] {
  mustBeDecrypted(text);
  return (JSON.parse(text) as Parsed[]).map(eventOf);
}

/** The stored form of an event, for people who read a journal: its id or owner, and its other fields in stored order. */
export function storedParts(event: Event): { readonly about: string; readonly detail: readonly unknown[] } {
  const [, about, , ...detail] = storedOf(event);
  return { about, detail };
}

function storedOf(event: Event): Stored {
  const { type, at } = event;
  switch (type) {
    case "step":
      return event.partial
        ? [type, event.id, at, event.attempt, event.fingerprint, "partial"]
        : [type, event.id, at, event.attempt, event.fingerprint];
    case "done":
      return event.how === undefined
        ? [type, event.id, at, event.attempt, event.value]
        : [type, event.id, at, event.attempt, event.value, ...given(event.how, event.by)];
    case "fail":
      return [type, event.id, at, event.attempt, event.error, event.retryAt, ...given(event.how, event.by)];
    case "mismatch":
      return [type, event.id, at, event.fingerprint];
    case "doubt":
      return [type, event.id, at, event.attempt, event.why];
    case "sleep":
      return [type, event.id, at, event.until];
    case "hook":
      return [type, event.id, at, event.token, ...given(event.url)];
    case "hooked":
      return [type, event.id, at, event.conflict, ...given(event.run)];
    case "got":
      return [type, event.id, at, event.payload];
    case "child":
      return event.onCancel === undefined
        ? [type, event.id, at, event.run, event.workflow, ...given(event.check ? "check" : undefined)]
        : [type, event.id, at, event.run, event.workflow, event.check ? "check" : "", event.onCancel];
    case "started":
      return [type, event.id, at, event.found];
    case "write":
      return [type, event.id, at, event.kind];
    case "attributes":
      return [type, event.id, at, event.set, ...given(event.was)];
    case "ended":
      return [type, event.id, at, event.status, event.output];
    case "aborted":
      return [type, event.id, at, event.reason];
    case "stop":
      return [type, event.id, at, event.reason, event.until];
    case "cancelled":
      return [type, event.id, at, event.error];
    case "cancel":
      return [type, event.id, at, ...given(event.why)];
    case "metadata":
      return [type, event.id, at, event.metadata];
    case "pause":
    case "resume":
      return [type, "run", at];
    case "retry":
      return [type, "run", at, event.cuts, event.renewed, ...given(event.mail)];
    case "fork":
      return [type, event.run, at, ...given(event.sameKeys ? "same" : undefined)];
    case "park":
      return [type, "mail", at, event.mail];
    case "unpark":
      return [type, "mail", at];
    case "fence":
      return [type, event.owner, at];
    case "claim":
      return [type, event.owner, at, ...given(event.crashes)];
    case "cleared":
      return [type, "run", at];
    case "end":
      return [type, event.status, at, event.output];
    default:
      return [type, event.id, at];
  }
}

/** The values that are present. An optional field is present only if all optional fields before it are. */
function given(...parts: readonly unknown[]): readonly unknown[] {
  return parts.filter((part) => part !== undefined);
}

/** A parsed event. The meaning of each element depends on the type; missing elements are undefined. */
type Parsed = readonly [type: Event["type"], about: string, at: number, r0: never, r1: never, r2: never, r3: never, r4: never];

/** An event of a type that only a later version knows keeps its common fields, and has no effect here. */
function eventOf([type, about, at, r0, r1, r2, r3, r4]: Parsed): Event {
  switch (type) {
    case "step":
      return { type, id: about, at, attempt: r0, fingerprint: r1, partial: r2 === "partial" };
    case "done":
      return { type, id: about, at, attempt: r0, value: r1, how: r2, by: r3 };
    case "fail":
      return { type, id: about, at, attempt: r0, error: r1, retryAt: r2, how: r3, by: r4 };
    case "mismatch":
      return { type, id: about, at, fingerprint: r0 };
    case "doubt":
      return { type, id: about, at, attempt: r0, why: r1 };
    case "sleep":
      return { type, id: about, at, until: r0 };
    case "hook":
      return { type, id: about, at, token: r0, url: r1 };
    case "hooked":
      return { type, id: about, at, conflict: r0, run: r1 };
    case "got":
      return { type, id: about, at, payload: r0 };
    case "child":
      return { type, id: about, at, run: r0, workflow: r1, check: r2 === "check", onCancel: r3 };
    case "started":
      return { type, id: about, at, found: r0 };
    case "write":
      return { type, id: about, at, kind: r0 };
    case "attributes":
      return { type, id: about, at, set: r0, was: r1 };
    case "ended":
      return { type, id: about, at, status: r0, output: r1 };
    case "aborted":
      return { type, id: about, at, reason: r0 };
    case "stop":
      return { type, id: "run", at, reason: r0, until: r1 };
    case "cancelled":
      return { type, id: about, at, error: r0 };
    case "metadata":
      return { type, id: about, at, metadata: r0 };
    case "retry":
      return { type, at, cuts: r0, renewed: r1, ...(r2 === undefined ? {} : { mail: r2 }) };
    case "fork":
      return { type, run: about, at, sameKeys: r0 === "same" };
    case "park":
      return { type, at, mail: r0 };
    case "unpark":
    case "pause":
    case "resume":
    case "cleared":
      return { type, at };
    case "fence":
      return { type, owner: about, at };
    case "claim":
      return { type, owner: about, at, crashes: r0 };
    case "end":
      return { type, status: about, at, output: r0 };
    case "cancel":
      return { type, id: "run", at, why: r0 };
    default:
      return { type, id: about, at };
  }
}
