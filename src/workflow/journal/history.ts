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
  /** The run is paused: deliveries from this index on were recorded since then, and the code gets them when the run is resumed. */
  pausedFrom: number | undefined;
  /** Deliveries from this index on may be without the requests that follow from them: new requests are allowed before the last of them. */
  looseFrom: number | undefined;
  /** If the run was set aside: mail after this number has not been read. */
  parked: number | undefined;
  /** When the code started: the first event of the first entry has this time. */
  startedAt: number | undefined;

  /** How often the run was cleared since it last made progress. */
  clearances = 0;
  #crashes = 0;
  /** Calls that were cancelled: the code does not get their later verdicts. */
  readonly #cancelled = new Set<string>();
  #entries = 0;
  /** The entry that set `looseFrom`. */
  #looseSince = 0;

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
    this.#entries += 1;
    for (const event of events) {
      // The code did not get events that were recorded after the end.
      if (this.end !== undefined) break;
      this.startedAt ??= event.at;
      if (isRequest(event)) this.requests.set(event.type === "drop" ? `drop ${event.id}` : event.id, event);
      if (isDelivery(event) && !(isAttemptEvent(event) && this.#cancelled.has(event.id))) this.#noteDelivery(event);
      if (isAttemptEvent(event)) this.#noteAttempt(event);
      else this.#note(event);
    }
  }

  #noteDelivery(event: Delivery): void {
    if (event.type === "stop") this.#loosenFrom(this.deliveries.length);
    // A later entry has deliveries: what follows from the earlier ones is in the journal, too.
    else if (this.pausedFrom === undefined && this.#entries > this.#looseSince) this.looseFrom = undefined;
    if (event.type === "cancelled") this.#cancelled.add(event.id);
    this.deliveries.push(event);
    this.#crashes = 0;
    this.clearances = 0;
  }

  /** Several deliveries are recorded together and given to the code one after the other: if the process dies in between, requests are missing. */
  #loosenFrom(index: number): void {
    this.looseFrom = Math.min(this.looseFrom ?? index, index);
    this.#looseSince = this.#entries;
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
      case "pause":
        this.pausedFrom ??= this.deliveries.length;
        this.#loosenFrom(this.pausedFrom);
        break;
      case "resume":
        this.#loosenFrom(this.pausedFrom ?? this.deliveries.length);
        this.pausedFrom = undefined;
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
