import { shortError } from "../../core/values/stored-error.js";
import type { Event, EventType } from "./event.js";

/** Requests that write more than their event: the store may have refused that part. */
const withParts: ReadonlySet<EventType> = new Set(["hook", "drop", "child", "write"]);

export interface Split {
  /** What was recorded before the first request that may have been refused. A journal that ends here can be replayed. */
  readonly before: readonly Event[];
  /** What was recorded after it, without such requests: to be written with the end of the run, which is never replayed. */
  readonly after: readonly Event[];
}

/** The events of an entry that the store has refused. The end that it may have had is not the run's end any more. */
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

/** Only that steps were begun, done, failed or in doubt, and the end with an error: neither values nor long messages, which the store may have refused. */
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
