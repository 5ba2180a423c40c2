import type { Chunk, Voided } from "../../core/runs/chunk.js";
import type { Entry, HookChange, StartRun, Then } from "../../core/runs/operation.js";
import { storable } from "../../core/values/storable-text.js";
import { putAside, withoutLongValues } from "./aside.js";
import { encodeEvents } from "./codec.js";
import type { Delivery, Event } from "./event.js";

/** A delivery, and what becomes of the chunks of its step. */
export interface DeliveryRecord {
  readonly event: Delivery;
  readonly streams?: { readonly ends: readonly Chunk[]; readonly voids: readonly Voided[] } | undefined;
}

/** An entry on its way to the journal, and what it was made of. */
export interface Taken {
  readonly entry: Entry;
  readonly events: readonly Event[];
  readonly chunks: readonly Chunk[];
  /** What begins when the entry is committed: the bodies of steps, and watches of children. */
  readonly starts: readonly (() => void)[];
  readonly mail: readonly TakenIn[];
}

/** A piece of mail, and how many events the draft had when it was taken in: what follows from it comes right after those. */
interface TakenIn {
  readonly seq: number;
  readonly events: number;
}

/** The mail that is taken in with the first `count` events of an entry. */
export function consumedWith({ mail }: Pick<Taken, "mail">, count: number): number | null {
  return mail.findLast(({ events }) => events <= count)?.seq ?? null;
}

/** What a run has recorded and not committed yet: its next entry. If we die before it is in the store, none of it happened. */
export class Draft {
  readonly #asideBytes: number;
  /** The parent must not depend on how long the child is kept: it is sent the output itself. */
  readonly #hasParent: boolean;
  #events: Event[] = [];
  #hooks: HookChange[] = [];
  #children: StartRun[] = [];
  #voids: Voided[] = [];
  #chunks: Chunk[] = [];
  #consumed: number | null = null;
  #mail: TakenIn[] = [];
  #starts: (() => void)[] = [];
  /** Steps whose attempt was in a refused entry, and was left out of what was written of it. */
  readonly #unbegun = new Set<string>();
  #unready: Promise<void> | undefined;

  /** Something that belongs to it is being read, which takes some turns of the event loop: until then it is not taken. */
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
    return this.#events.length > 0;
  }

  get events(): readonly Event[] {
    return this.#events;
  }

  record(event: Event): void {
    this.#events.push(event);
  }

  recordDelivery({ event, streams }: DeliveryRecord): void {
    this.#events.push(event);
    if (streams) this.writeChunks(streams.ends, streams.voids);
  }

  changeHook(change: HookChange): void {
    this.#hooks.push(change);
  }

  startChild(child: StartRun): void {
    this.#children.push(child);
  }

  writeChunks(chunks: readonly Chunk[], voids: readonly Voided[] = []): void {
    this.#chunks.push(...chunks);
    this.#voids.push(...voids);
  }

  /** Mail up to this one is taken in with the entry. */
  consume(mail: number): void {
    this.#consumed = mail;
    this.#mail.push({ seq: mail, events: this.#events.length });
  }

  /** `start` is called when the entry is committed, and the run is known to be ours: the evidence comes before the effect. */
  startAfterCommit(start: () => void): void {
    this.#starts.push(start);
  }

  /** `startedAt`: only for a run's first entry. */
  take(then: Then, startedAt?: number): Taken {
    const events = this.#events;
    const starts = this.#starts;
    const chunks = this.#chunks;
    const mail = this.#mail;
    const { events: short, aside } = withoutLongValues(events, this.#asideBytes);
    const written = startedAt === undefined ? short : stamped(short, startedAt);
    const plain: Entry = {
      events: events.length > 0 ? encodeEvents(written) : null,
      consumed: this.#consumed,
      hooks: this.#hooks,
      children: this.#children,
      then: this.#ended(then),
    };
    const entry = this.#withChunks(plain, aside.length === 0 ? chunks : [...aside, ...chunks]);
    this.discard();
    return { entry, events, chunks, starts, mail };
  }

  #withChunks(entry: Entry, chunks: readonly Chunk[]): Entry {
    const withVoids = this.#voids.length > 0 ? { ...entry, voids: this.#voids } : entry;
    return chunks.length > 0 ? { ...withVoids, chunks } : withVoids;
  }

  /** A long output stands beside the journal: the event that says it has put it there. */
  #ended(then: Then): Then {
    if (then.kind === "release" && then.trouble !== null) return { ...then, trouble: storable(then.trouble) };
    if (then.kind !== "end" || then.output === null || this.#hasParent) return then;
    return { ...then, output: putAside(then.output, this.#asideBytes)?.reference ?? then.output };
  }

  /** It was not written after all, but for `without`. */
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
  }

  /** The entry of these events was refused: what can be written of it goes with the next one, which has another end. */
  restore(events: readonly Event[], { entry, events: refused }: Taken): void {
    for (const event of refused) if (event.type === "step") this.#unbegun.add(event.id);
    this.#events = [...events, ...this.#events.filter(({ type }) => type !== "end")];
    this.#voids = [...(entry.voids ?? []), ...this.#voids];
    this.#consumed ??= entry.consumed;
  }

  discard(): void {
    this.#events = [];
    this.#starts = [];
    this.#hooks = [];
    this.#children = [];
    this.#voids = [];
    this.#chunks = [];
    this.#consumed = null;
    this.#mail = [];
  }

  /**
   * Attempts whose entry is not on its way yet will not begin here. What the code asked for stays in the journal, as not
   * begun: without it, a replay would ask for it where the journal goes on with something else. Retries are left out.
   */
  withholdStarts(): ReadonlySet<string> {
    const ids = new Set([...this.#unbegun, ...this.#events.flatMap((event) => (event.type === "step" ? [event.id] : []))]);
    this.#events = withheld(this.#events);
    this.#starts = [];
    return ids;
  }
}

/** Events without the beginnings of attempts: of a first one only the request stays. */
export function withheld(events: readonly Event[]): Event[] {
  return events.flatMap((event): Event[] => {
    if (event.type !== "step") return [event];
    return event.attempt > 1 ? [] : [{ ...event, attempt: 0 }];
  });
}

/** The time of the first event is when the code began: so that a replay's clock begins at the same time. */
function stamped([first, ...rest]: readonly Event[], startedAt: number): Event[] {
  return first === undefined ? [] : [{ ...first, at: startedAt }, ...rest];
}
