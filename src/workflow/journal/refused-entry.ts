import { shortError } from "../../core/values/stored-error.js";
import type { Event } from "./event.js";

/** Requests that write more than their event: the store may have refused that part. */
const withParts: ReadonlySet<Event[0]> = new Set(["hook", "drop", "child", "write"]);

export interface Split {
  /** What was recorded before the first request that may have been refused. A journal that ends here can be replayed. */
  readonly before: readonly Event[];
  /** What was recorded after it, without such requests: to be written with the end of the run, which nobody replays. */
  readonly after: readonly Event[];
}

/** The events of an entry that the store has refused. The end that it may have had is not the run's end any more. */
export function splitRefused(events: readonly Event[]): Split {
  const cut = events.findIndex(([type]) => withParts.has(type));
  const at = cut === -1 ? events.length : cut;
  return {
    before: events.slice(0, at).filter(notEnd),
    after: events.slice(at).filter((event) => !withParts.has(event[0]) && notEnd(event)),
  };
}

function notEnd([type]: Event): boolean {
  return type !== "end";
}

/** Only that steps were begun, done, failed or in doubt, and the end with an error: neither values nor long messages, which the store may have refused. */
export function bareEvents(events: readonly Event[]): Event[] {
  return events.flatMap((event): Event[] => {
    if (event[0] === "step" || event[0] === "doubt") return [event];
    if (event[0] === "done") return [event.with(4, "null") as unknown as Event];
    if (event[0] === "fail") return [event.with(4, shortError(event[4])) as unknown as Event];
    if (event[0] === "end") return [event.with(3, event[3] === null ? null : shortError(event[3])) as unknown as Event];
    return [];
  });
}
