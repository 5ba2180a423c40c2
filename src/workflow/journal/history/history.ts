import type { JournalEntry, Mail } from "../../../core/runs/run.js";
import { decodeEvents } from "../codec.js";
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
} from "../event.js";
import { Lineage } from "./lineage.js";
import { entriesWithoutRetried, looseSinceRetry } from "./retries.js";

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
  /** The run is paused: deliveries from this index on were recorded since then, and the code gets them when the run is resumed. */
  pausedFrom: number | undefined;
  /**
   * Deliveries from this index on may be without the requests that follow from them: new requests are allowed before the last of them. So after a retry
   * (retries.ts), a pause, and a cancellation.
   */
  looseFrom: number | undefined;
  /** If the run was set aside: mail after this number has not been read. */
  parked: number | undefined;
  /** How often a request was renewed by retries, by its id: see `renewedId`. */
  readonly renewals = new Map<string, number>();
  /** What the last retry has continued. Undefined: the run was never retried. */
  retried: readonly string[] | undefined;
  /** Number of retries, and when the last one was. */
  retries = 0;
  retriedAt = 0;
  /** Number of the last mail before the last retry. Undefined: the run was never retried, or by a version that did not write it. */
  #retriedMail: number | undefined;
  /** Requests of before the last retry that it has kept. */
  #keptByRetry: ReadonlySet<string> = new Set();
  /** The runs from which the beginning was copied. */
  lineage = new Lineage();
  /** When the code started: the first event of the first entry has this time. */
  startedAt: number | undefined;

  /** How often the run was cleared since it last made progress. */
  clearances = 0;
  #crashes = 0;
  /** Calls that were cancelled: the code does not get their later verdicts. */
  #cancelled: Set<string> | undefined;
  #entries = 0;
  /** The entry that set `looseFrom`. */
  #looseSince = 0;

  constructor(entries: readonly JournalEntry[]) {
    const decoded = entries.map((entry) => decodeEvents(entry.events));
    const retried = decoded.some((events) => events.some(({ type }) => type === "retry"));
    for (const events of retried ? entriesWithoutRetried(decoded) : decoded) this.#read(events);
    if (retried) this.looseFrom = lower(this.looseFrom, looseSinceRetry(decoded.flat()));
  }

  /** A history of requests and deliveries, including some that are not written yet, of a run whose journal `of` has been read. */
  static of(events: readonly Event[], of: Pick<History, "accepted" | "renewals" | "retries" | "lineage">): History {
    const history = new History([]);
    history.#read(events);
    for (const [id, n] of of.renewals) history.renewals.set(id, n);
    history.retries = of.retries;
    history.lineage = of.lineage.copy();
    // The first event gets the start time of the code only when its entry is written.
    history.startedAt = undefined;
    for (const id of of.accepted) history.accepted.add(id);
    return history;
  }

  /** Whether the mail was sent before the last retry. A request to cancel or pause the run was for a run that has failed since. */
  isBeforeRetry({ seq, at }: Pick<Mail, "seq" | "at">): boolean {
    return this.#retriedMail === undefined ? at <= this.retriedAt : seq <= this.#retriedMail;
  }

  /** Whether the code made this request before the last retry. After a retry the code may make another request with the id of one that was dropped. */
  isKeptByRetry(request: string): boolean {
    return this.#keptByRetry.has(request);
  }

  #read(events: readonly Event[]): void {
    this.#entries += 1;
    for (const event of events) {
      // The code did not get events that were recorded after the end.
      if (this.end !== undefined) break;
      this.startedAt ??= event.at;
      if (isRequest(event)) this.requests.set(event.type === "drop" ? `drop ${event.id}` : event.id, event);
      if (isDelivery(event) && !(isAttemptEvent(event) && this.#cancelled?.has(event.id))) this.#noteDelivery(event);
      if (isAttemptEvent(event)) this.#noteAttempt(event);
      else this.#note(event);
    }
  }

  #noteDelivery(event: Delivery): void {
    if (event.type === "stop") this.#loosenFrom(this.deliveries.length);
    // A later entry has deliveries: what follows from the earlier ones is in the journal, too.
    else if (this.pausedFrom === undefined && this.#entries > this.#looseSince) this.looseFrom = undefined;
    if (event.type === "cancelled") {
      this.#cancelled ??= new Set();
      this.#cancelled.add(event.id);
    }
    this.deliveries.push(event);
    this.#crashes = 0;
    this.clearances = 0;
  }

  /** Several deliveries are recorded together and given to the code one after the other: if the process dies in between, requests are missing. */
  #loosenFrom(index: number): void {
    this.looseFrom = lower(this.looseFrom, index);
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
    this.retried = retry.cuts;
    this.retries += 1;
    this.retriedAt = retry.at;
    this.#retriedMail = retry.mail;
    this.#keptByRetry = new Set(this.requests.keys());
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

function lower(one: number | undefined, other: number | undefined): number | undefined {
  return one === undefined || other === undefined ? (one ?? other) : Math.min(one, other);
}
