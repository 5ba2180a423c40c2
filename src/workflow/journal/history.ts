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
  type Retry,
  type RunEnd,
} from "./event.js";
import { Lineage } from "./lineage.js";
import { looseFrom, withoutRetried } from "./retries.js";

/** The journal of a run, in the form that a replay needs. */
export class History {
  /** Requests of the code by id. The replay removes each when the code makes it again. */
  readonly requests = new Map<string, Request>();
  /** Deliveries to the code, in order. */
  deliveries: Delivery[] = [];
  /** Events of each step call, which its next attempt needs. */
  readonly attempts = new Map<string, (AttemptEvent | Claim | Retry)[]>();
  /** By request of a child: when the code first awaited its result. */
  readonly awaits = new Map<string, number>();
  /** Step calls that an operator has accepted, whatever arguments the code calls the step with. */
  readonly accepted = new Set<string>();
  end: RunEnd | undefined;
  /** If the run was set aside: mail after this number has not been read. */
  parked: number | undefined;
  /** From this delivery on the code may make requests that the journal does not have: see retries.ts. */
  looseFrom: number | undefined;
  /** How often a request was renewed by retries, by its id: see `renewedId`. */
  readonly renewals = new Map<string, number>();
  /** The runs from which the beginning was copied. */
  lineage = new Lineage();
  /** When the code started: the first event of the first entry has this time. */
  startedAt: number | undefined;

  /** How often the run was cleared since it last made progress. */
  clearances = 0;
  #crashes = 0;

  constructor(entries: readonly JournalEntry[]) {
    const events = entries.flatMap((entry) => decodeEvents(entry.events));
    this.looseFrom = looseFrom(events);
    this.#read(withoutRetried(events));
  }

  /** A history of requests and deliveries, including some that are not written yet, of a run whose journal `of` has been read. */
  static of(events: readonly Event[], of: Pick<History, "accepted" | "renewals" | "lineage">): History {
    const history = new History([]);
    history.#read(events);
    for (const [id, n] of of.renewals) history.renewals.set(id, n);
    history.lineage = of.lineage.copy();
    // The first event gets the start time of the code only when its entry is written.
    history.startedAt = undefined;
    for (const id of of.accepted) history.accepted.add(id);
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
        break;
      case "retry":
        this.#noteRetry(event);
        break;
      case "fork":
        this.lineage.add(event, this.requests.keys(), this.deliveries.length);
    }
  }

  /** The retried steps have all their retries again. */
  #noteRetry(retry: Retry): void {
    for (const id of retry.renewed) this.renewals.set(id, (this.renewals.get(id) ?? 0) + 1);
    for (const id of retry.cuts) this.attempts.get(id)?.push(retry);
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
function isOpen(log: readonly (AttemptEvent | Claim | Retry)[]): boolean {
  const last = lastAttemptEvent(log);
  return last?.type === "step" && last.attempt > 0;
}
