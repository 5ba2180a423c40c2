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

/** The journal of a run, in the form that a replay needs. */
export class History {
  /** Requests of the code by id. The replay removes each when the code makes it again. */
  readonly requests = new Map<string, Request>();
  /** Deliveries to the code, in order. */
  deliveries: Delivery[] = [];
  /** Events of each step call, which its next attempt needs. */
  readonly attempts = new Map<string, (AttemptEvent | Claim)[]>();
  /** By request of a child: when the code first awaited its result. */
  readonly awaits = new Map<string, number>();
  /** Step calls that an operator has accepted, whatever arguments the code calls the step with. */
  readonly accepted = new Set<string>();
  end: RunEnd | undefined;
  /** If the run was set aside: mail after this number has not been read. */
  parked: number | undefined;
  /** When the code started: the first event of the first entry has this time. */
  startedAt: number | undefined;

  /** How often the run was cleared since it last made progress. */
  clearances = 0;
  #crashes = 0;

  constructor(entries: readonly JournalEntry[]) {
    for (const entry of entries) this.#read(decodeEvents(entry.events));
  }

  /** A history of events, including events that are not written yet. */
  static of(events: readonly Event[], accepted: Iterable<string>): History {
    const history = new History([]);
    history.#read(events);
    // The first event gets the start time of the code only when its entry is written.
    history.startedAt = undefined;
    for (const id of accepted) history.accepted.add(id);
    return history;
  }

  #read(events: readonly Event[]): void {
    for (const event of events) {
      // The code did not get events that were recorded after the end.
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

  /** The previous owner died while it executed the run alone, or an operator has requested another try: adds the claim to the logs of the steps that were running. */
  #noteClaim(claim: Claim): void {
    const { crashes } = claim;
    if (crashes === undefined || (crashes !== 0 && crashes <= this.#crashes)) return;
    this.#crashes = crashes;
    for (const log of this.attempts.values()) if (isOpen(log)) log.push(claim);
  }
}

/** Whether the last attempt has no verdict. */
function isOpen(log: readonly (AttemptEvent | Claim)[]): boolean {
  const last = lastAttemptEvent(log);
  return last?.type === "step" && last.attempt > 0;
}
