import type { JournalEntry } from "../core/run.js";
import { decodeEvents, type Event, isDelivery, isRequest } from "./event.js";

/** What the journal of a run says, as its replay needs it. */
export class History {
  /** What the code asked for, by id. Taken out as the code asks for it again. */
  readonly requests = new Map<string, Event>();
  /** What the code was told, in order. */
  readonly deliveries: Event[] = [];
  /** Everything about a step that its next attempt has to know. */
  readonly attempts = new Map<string, Event[]>();
  readonly end: Event | undefined;

  constructor(entries: readonly JournalEntry[]) {
    for (const event of entries.flatMap((entry) => decodeEvents(entry.events))) {
      const [type, id] = event;
      if (isRequest(event)) this.requests.set(type === "drop" ? `drop ${id}` : id, event);
      if (isDelivery(event)) this.deliveries.push(event);
      if (type === "step" || type === "done" || type === "fail" || type === "doubt") {
        const log = this.attempts.get(id) ?? [];
        this.attempts.set(id, log);
        log.push(event);
      }
      if (type === "end") this.end = event;
    }
  }
}
