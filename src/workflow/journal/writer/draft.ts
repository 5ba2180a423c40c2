import type { Chunk, Voided } from "../../../core/runs/chunk.js";
import type { Entry, HookChange, OutgoingMail, StartRun, Then } from "../../../core/runs/operation.js";
import { storable } from "../../../core/values/storable-text.js";
import { errorFactsOf } from "../../../core/values/stored-error.js";
import { putAside, withoutLongValues } from "../aside.js";
import { encodeEvents } from "../codec.js";
import type { Delivery, Event } from "../event.js";

/** A delivery, with the stream ends to write and the chunks to void. */
export interface DeliveryRecord {
  readonly event: Delivery;
  readonly streams?: { readonly ends: readonly Chunk[]; readonly voids: readonly Voided[] } | undefined;
  /** Recorded right after the delivery; the code does not get them. */
  readonly notes?: readonly Event[];
}

/** An entry that is being written, and the parts it was made from. */
export interface Taken {
  readonly entry: Entry;
  readonly events: readonly Event[];
  readonly chunks: readonly Chunk[];
  /** Called when the entry is committed: start step bodies and watch children. */
  readonly starts: readonly (() => void)[];
  readonly mail: readonly ConsumedMail[];
}

/** Mail that the entry consumes. `events`: how many events were in the draft before it; those that follow from the mail come right after them. */
interface ConsumedMail {
  readonly seq: number;
  readonly events: number;
}

/** Number of the last mail that is consumed with the first `count` events of an entry. */
export function consumedWith({ mail }: Pick<Taken, "mail">, count: number): number | null {
  return mail.findLast(({ events }) => events <= count)?.seq ?? null;
}

/** The next entry of a run: recorded events that are not committed yet. If the process dies before the commit, none of them happened. */
export class Draft {
  readonly #asideBytes: number;
  /** The parent gets the output itself and not a reference, because the child may be purged before the parent reads it. */
  readonly #hasParent: boolean;
  #events: Event[] = [];
  #hooks: HookChange[] = [];
  #children: StartRun[] = [];
  #voids: Voided[] = [];
  #chunks: Chunk[] = [];
  #consumed: number | null = null;
  #mail: ConsumedMail[] = [];
  #starts: (() => void)[] = [];
  #outgoing: OutgoingMail[] = [];
  #stopAt: number | undefined;
  /** Steps whose attempt was in an entry that the store rejected. */
  readonly #unbegun = new Set<string>();
  #unready: Promise<void> | undefined;

  /** Set while a part of the entry is being read asynchronously: the entry must not be taken before. */
  get unready(): Promise<void> | undefined {
    return this.#unready;
  }

  waitFor(reading: Promise<void>): void {
    const all = Promise.all([this.#unready, reading]).then(() => {
      if (this.#unready === all) this.#unready = undefined;
    });
    this.#unready = all;
  }

  constructor(asideBytes: number, hasParent: boolean) {
    this.#asideBytes = asideBytes;
    this.#hasParent = hasParent;
  }

  get first(): Event | undefined {
    return this.#events[0];
  }

  get hasEvents(): boolean {
    return this.#events.length > 0 || this.#outgoing.length > 0;
  }

  get events(): readonly Event[] {
    return this.#events;
  }

  record(event: Event): void {
    this.#events.push(event);
  }

  recordDelivery({ event, streams, notes = [] }: DeliveryRecord): void {
    this.#events.push(event, ...notes);
    if (streams) this.writeChunks(streams.ends, streams.voids);
  }

  changeHook(change: HookChange): void {
    this.#hooks.push(change);
  }

  startChild(child: StartRun): void {
    this.#children.push(child);
  }

  /** The entry sends this mail to another run. */
  send(mail: OutgoingMail): void {
    this.#outgoing.push(mail);
  }

  /** From this time on the run can be ended without its code. */
  stopAt(at: number): void {
    this.#stopAt = at;
  }

  writeChunks(chunks: readonly Chunk[], voids: readonly Voided[] = []): void {
    this.#chunks.push(...chunks);
    this.#voids.push(...voids);
  }

  /** The entry consumes mail up to this number. */
  consume(mail: number): void {
    this.#consumed = mail;
    this.#mail.push({ seq: mail, events: this.#events.length });
  }

  /** `start` is called when the entry is committed and this worker is known to own the run: the evidence comes before the effect. */
  startAfterCommit(start: () => void): void {
    this.#starts.push(start);
  }

  /** `startedAt`: only for a run's first entry. */
  take(then: Then, startedAt?: number): Taken {
    const events = this.#events;
    const starts = this.#starts;
    const chunks = this.#chunks.length > 0 ? this.#chunks : none;
    const mail = this.#mail.length > 0 ? this.#mail : none;
    const { events: short, aside } = withoutLongValues(events, this.#asideBytes);
    const written = startedAt === undefined ? short : withStartTime(short, startedAt);
    const plain: Entry = {
      events: events.length > 0 ? encodeEvents(written) : null,
      consumed: this.#consumed,
      hooks: this.#hooks.length > 0 ? this.#hooks : none,
      children: this.#children.length > 0 ? this.#children : none,
      then: this.#ended(then),
    };
    const withMail = this.#outgoing.length > 0 ? { ...plain, outgoing: this.#outgoing } : plain;
    const withStop = this.#stopAt === undefined ? withMail : { ...withMail, stopAt: this.#stopAt };
    const result = events.findLast((event) => event.type === "attributes")?.result;
    const entry = this.#withChunks(
      result === undefined ? withStop : { ...withStop, attributes: result },
      aside.length === 0 ? chunks : [...aside, ...chunks],
    );
    this.discard();
    return { entry, events, chunks, starts, mail };
  }

  #withChunks(entry: Entry, chunks: readonly Chunk[]): Entry {
    const withVoids = this.#voids.length > 0 ? { ...entry, voids: this.#voids } : entry;
    return chunks.length > 0 ? { ...withVoids, chunks } : withVoids;
  }

  /** Adds by which error the run is found, and replaces a long output by a reference. The `end` event has already stored the value aside. */
  #ended(then: Then): Then {
    if (then.kind === "release" && then.trouble !== null) return { ...then, trouble: storable(then.trouble) };
    if (then.kind !== "end" || then.output === null) return then;
    const facts = then.status === "failed" ? errorFactsOf(then.output) : undefined;
    const found = facts === undefined ? then : { ...then, error: { name: facts.name, code: facts.code } };
    if (this.#hasParent) return found;
    return { ...found, output: putAside(then.output, this.#asideBytes)?.reference ?? then.output };
  }

  /** Puts an entry back that was not written, except for the event `without`. */
  putBack({ entry, events, chunks, starts, mail }: Taken, without: Event): void {
    const back = events.filter((event) => event !== without);
    this.#events = [...back, ...this.#events];
    this.#mail = [...mail, ...this.#mail.map(({ seq, events: since }) => ({ seq, events: since + back.length }))];
    this.#starts = [...starts, ...this.#starts];
    this.#hooks = [...entry.hooks, ...this.#hooks];
    this.#children = [...entry.children, ...this.#children];
    this.#voids = [...(entry.voids ?? []), ...this.#voids];
    this.#chunks = [...chunks, ...this.#chunks];
    this.#consumed ??= entry.consumed;
    this.#putMailBack(entry);
  }

  #putMailBack({ outgoing = [], stopAt }: Entry): void {
    this.#outgoing = [...outgoing, ...this.#outgoing];
    this.#stopAt ??= stopAt;
  }

  /** The store rejected the entry: the given events are written with the next entry, which has another end. */
  restore(events: readonly Event[], { entry, events: refused }: Taken): void {
    for (const event of refused) if (event.type === "step") this.#unbegun.add(event.id);
    this.#events = [...events, ...this.#events.filter(({ type }) => type !== "end")];
    this.#voids = [...(entry.voids ?? []), ...this.#voids];
    this.#consumed ??= entry.consumed;
    this.#putMailBack(entry);
  }

  discard(): void {
    this.#events = [];
    this.#starts = [];
    // Most entries have none of these: a new array for each would be most of what a draft allocates.
    if (this.#hooks.length > 0) this.#hooks = [];
    if (this.#children.length > 0) this.#children = [];
    if (this.#voids.length > 0) this.#voids = [];
    if (this.#chunks.length > 0) this.#chunks = [];
    this.#consumed = null;
    if (this.#mail.length > 0) this.#mail = [];
    if (this.#outgoing.length > 0) this.#outgoing = [];
    this.#stopAt = undefined;
  }

  /**
   * Prevents attempts from starting whose entry is not being written yet. The requests stay in the entry as not started: without
   * them a replay would diverge. Retries are removed.
   */
  withholdStarts(): ReadonlySet<string> {
    this.#starts = [];
    return this.unwriteAttempts();
  }

  /** Removes attempts from the entry. The caller must not begin them; everything else of the entry starts as usual. */
  unwriteAttempts(): ReadonlySet<string> {
    const ids = new Set(this.#unbegun);
    for (const event of this.#events) if (event.type === "step") ids.add(event.id);
    if (ids.size > 0) this.#events = withoutStarts(this.#events);
    return ids;
  }
}

/** Events without the starts of attempts. A first attempt becomes a request that has not started. */
export function withoutStarts(events: readonly Event[]): Event[] {
  return events.flatMap((event): Event[] => {
    if (event.type !== "step") return [event];
    return event.attempt > 1 ? [] : [{ ...event, attempt: 0 }];
  });
}

/** Gives the first event the start time of the code, so that the clock of a replay starts at the same time. */
function withStartTime(events: readonly Event[], startedAt: number): readonly Event[] {
  const [first] = events;
  if (first === undefined || first.at === startedAt) return events;
  return [{ ...first, at: startedAt }, ...events.slice(1)];
}

const none: readonly never[] = [];
