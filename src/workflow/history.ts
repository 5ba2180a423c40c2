import type { JournalEntry } from "../core/run.js";
import { decodeEvents, type Event, isDelivery, isRequest } from "./event.js";

/** What the journal of a run says, as its replay needs it. */
export class History {
  /** What the code asked for, by id. Taken out as the code asks for it again. */
  readonly requests = new Map<string, Event>();
  /** What the code was told, in order. */
  deliveries: Event[] = [];
  /** Everything about a step that its next attempt has to know. */
  readonly attempts = new Map<string, Event[]>();
  readonly end: Event | undefined;
  /** Mail after this one was put aside when the code diverged. */
  readonly parked: number | undefined;
  /** When the code began: the first entry was written with that as the time of its first event. */
  readonly startedAt: number | undefined;

  constructor(entries: readonly JournalEntry[]) {
    for (const event of entries.flatMap((entry) => decodeEvents(entry.events))) {
      const [type, id, at] = event;
      this.startedAt ??= at;
      if (isRequest(event)) this.requests.set(type === "drop" ? `drop ${id}` : id, event);
      if (isDelivery(event)) this.deliveries.push(event);
      if (type === "step" || type === "done" || type === "fail" || type === "doubt") {
        const log = this.attempts.get(id) ?? [];
        this.attempts.set(id, log);
        log.push(event);
      }
      if (type === "park") this.parked ??= event[3];
      if (type === "unpark") this.parked = undefined;
      if (type === "end") this.end = event;
    }
  }
}
