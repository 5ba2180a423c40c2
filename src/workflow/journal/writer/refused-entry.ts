import { shortError } from "../../../core/values/stored-error.js";
import type { Event, EventType } from "../event.js";

/** Requests that write more than their event: the store may have rejected that part. */
const withParts: ReadonlySet<EventType> = new Set(["hook", "drop", "child", "write", "attributes"]);

export interface Split {
  /** Events before the first request that may have been rejected. A journal that ends here can be replayed. */
  readonly before: readonly Event[];
  /** Later events, without such requests. They are written with the end of the run, which is never replayed. */
  readonly after: readonly Event[];
}

/** Splits the events of an entry that the store has rejected. Its `end`, if it has one, is dropped, because the run now ends differently. */
export function splitRefused(events: readonly Event[]): Split {
  const cut = events.findIndex(({ type }) => withParts.has(type));
  const at = cut === -1 ? events.length : cut;
  return {
    before: events.slice(0, at).filter(notEnd),
    after: events.slice(at).filter((event) => !withParts.has(event.type) && notEnd(event)),
  };
}

function notEnd({ type }: Event): boolean {
  return type !== "end";
}

/** Only which steps started, completed, failed or are unknown, and the end. Without values and long messages, which the store may have rejected. */
export function bareEvents(events: readonly Event[]): Event[] {
  return events.flatMap((event): Event[] => {
    switch (event.type) {
      case "step":
      case "doubt":
        return [event];
      case "done":
        return [{ ...event, value: "null" }];
      case "fail":
        return [{ ...event, error: shortError(event.error) }];
      case "end":
        return [{ ...event, output: event.output === null ? null : shortError(event.output) }];
      default:
        return [];
    }
  });
}
