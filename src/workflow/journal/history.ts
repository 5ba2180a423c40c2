import type { JournalEntry } from "../../core/runs/run.js";
import { decodeEvents } from "./codec.js";
import {
  type AttemptEvent,
  type Claim,
  type Delivery,
  type Event,
  isAttemptEvent,
  isDelivery,
  isRequest,
  lastAttemptEvent,
  type Request,
  type RunEnd,
} from "./event.js";

/** What the journal of a run says, as its replay needs it. */
export class History {
  /** What the code asked for, by id. Taken out as the code asks for it again. */
  readonly requests = new Map<string, Request>();
  /** What the code got, in order. */
  deliveries: Delivery[] = [];
  /** Everything about a step that its next attempt has to know. */
  readonly attempts = new Map<string, (AttemptEvent | Claim)[]>();
  /** When the code first asked for a child's result, by the child's request. */
  readonly awaits = new Map<string, number>();
  /** Calls of steps that a person has accepted, whatever arguments the code asks with. */
  readonly accepted = new Set<string>();
  end: RunEnd | undefined;
  /** Mail after this one was put aside when the run was set aside. */
  parked: number | undefined;
  /** When the code began: the first entry was written with that as the time of its first event. */
  startedAt: number | undefined;

  /** How often the run was cleared since it last got further. */
  clearances = 0;
  #crashes = 0;

  constructor(entries: readonly JournalEntry[]) {
    for (const entry of entries) this.#read(decodeEvents(entry.events));
  }

  /** Of events that are in no entry yet, too. */
  static of(events: readonly Event[], accepted: Iterable<string>): History {
    const history = new History([]);
    history.#read(events);
    // The time of the first event is not when the code began: it was not written yet.
    history.startedAt = undefined;
    for (const id of accepted) history.accepted.add(id);
    return history;
  }

  #read(events: readonly Event[]): void {
    for (const event of events) {
      // What was recorded after the end is for people: the code did not get it.
      if (this.end !== undefined) break;
      this.startedAt ??= event.at;
      if (isRequest(event)) this.requests.set(event.type === "drop" ? `drop ${event.id}` : event.id, event);
      if (isDelivery(event)) {
        this.deliveries.push(event);
        this.#crashes = 0;
        this.clearances = 0;
      }
      if (isAttemptEvent(event)) this.#noteAttempt(event);
      else this.#note(event);
    }
  }

  #noteAttempt(event: AttemptEvent): void {
    const log = this.attempts.get(event.id);
    if (log === undefined) this.attempts.set(event.id, [event]);
    else log.push(event);
  }

  #note(event: Event): void {
    switch (event.type) {
      case "cleared":
        this.clearances += 1;
        break;
      case "claim":
        this.#noteClaim(event);
        break;
      case "accept":
        this.accepted.add(event.id);
        break;
      case "await":
        this.awaits.set(event.id, event.at);
        break;
      case "park":
        this.parked ??= event.mail;
        break;
      case "unpark":
        this.parked = undefined;
        break;
      case "end":
        this.end = event;
    }
  }

  /** The owner before this one died alone, or a person has asked for one more try: the steps that it was in have to know. */
  #noteClaim(claim: Claim): void {
    const { crashes } = claim;
    if (crashes === undefined || (crashes !== 0 && crashes <= this.#crashes)) return;
    this.#crashes = crashes;
    for (const log of this.attempts.values()) if (isOpen(log)) log.push(claim);
  }
}

/** Its attempt has no verdict. */
function isOpen(log: readonly (AttemptEvent | Claim)[]): boolean {
  const last = lastAttemptEvent(log);
  return last?.type === "step" && last.attempt > 0;
}
