import { type RecordId, rowOf } from "../../../core/ledger/record.js";

/** What this process takes the time from. Tests bring clocks that are wrong. */
export interface Time {
  /** Whole milliseconds that only go up. */
  monotonic(): number;
  /** Milliseconds since 1970, as the machine believes. */
  wall(): number;
}

const systemTime: Time = { monotonic: () => Math.floor(performance.now()), wall: () => Date.now() };

/** One moment on both clocks. They are read together: the machine's clock may be set between two readings. */
export interface Moment {
  readonly now: number;
  readonly monotonic: number;
}

/** A version of a running record. */
interface Version {
  readonly rev: number;
  readonly owner: string;
}

/** Which version was seen, and when its lease is over on this process's monotonic clock. */
interface Seen extends Version {
  readonly endsAt: number;
}

/** More records than this, run by others and asked for here at the same time, are taken over later, never earlier. */
const seenMax = 50_000;
/** The machine's clock may be slewed; beyond this it was set. */
const driftMsMax = 1000;

/**
 * DynamoDB has no clock that a condition could ask, and the clocks of two callers may differ by a day. So nobody compares
 * an instant of another one's clock: an attempt counts as silent when this process has seen the same version of its record
 * for the length of the lease that its holder wrote down, on its own monotonic clock. Every renewal is a new version.
 *
 * A record is first seen after it was written, so the lease ends here later than for its holder: two of them never
 * overlap. Who sees a dead attempt for the first time waits a whole lease before it takes over.
 *
 * Instants are told on a clock that goes like the monotonic one, and is set again when the machine's was.
 */
export class Observations {
  readonly #time: Time;
  /** What the monotonic clock lacks to the time since 1970. */
  #offset: number;
  readonly #seen = new Map<string, Seen | "settled">();

  constructor(time: Time = systemTime) {
    this.#time = time;
    this.#offset = time.wall() - time.monotonic();
  }

  moment(): Moment {
    const monotonic = this.#time.monotonic();
    const wall = this.#time.wall();
    if (Math.abs(wall - monotonic - this.#offset) > driftMsMax) this.#offset = wall - monotonic;
    return { now: monotonic + this.#offset, monotonic };
  }

  /** Until when, told at `moment`, this process leaves a running record to its owner. */
  leaseUntil(id: RecordId, { rev, owner, leaseMs }: Version & { readonly leaseMs: number }, { now, monotonic }: Moment): number {
    const seen = this.#seenOf(id);
    const endsAt = seen?.rev === rev && seen.owner === owner ? seen.endsAt : monotonic + leaseMs;
    if (seen?.endsAt !== endsAt) this.saw(id, { rev, owner, endsAt });
    return endsAt - monotonic + now;
  }

  /** A version that this process has written itself: its lease counts from before it was sent, as it does for its holder. */
  saw(id: RecordId, seen: Seen): void {
    this.#remember(rowOf(id), seen);
  }

  /** Whether this process has seen a later version than this one: what was read had changed before it was looked at. */
  knowsLater(id: RecordId, rev: number): boolean {
    return (this.#seenOf(id)?.rev ?? 0) > rev;
  }

  /** How much of its own lease an owner of this process has left. */
  leaseLeft(id: RecordId, owner: string, { monotonic }: Moment): number {
    const seen = this.#seenOf(id);
    return seen?.owner === owner ? seen.endsAt - monotonic : 0;
  }

  /** It was replayed, and may be again. */
  sawSettled(id: RecordId): void {
    this.#remember(rowOf(id), "settled");
  }

  forget(id: RecordId): void {
    this.#seen.delete(rowOf(id));
  }

  /** Whether a record is likely to be there: reading it first costs less than a write that is refused. */
  expects(id: RecordId): boolean {
    return this.#seen.has(rowOf(id));
  }

  #seenOf(id: RecordId): Seen | undefined {
    const seen = this.#seen.get(rowOf(id));
    return seen === "settled" ? undefined : seen;
  }

  #remember(row: string, seen: Seen | "settled"): void {
    this.#seen.delete(row);
    this.#seen.set(row, seen);
    if (this.#seen.size <= seenMax) return;
    for (const oldest of this.#seen.keys()) return void this.#seen.delete(oldest);
  }
}

const shared = new Map<string, { readonly seen: Observations; handles: number }>();

/** What one handle of a process has seen, its other handles on the same table know. `release` when a handle is closed. */
export function observationsOf(table: string): { readonly seen: Observations; readonly release: () => void } {
  const entry = shared.get(table) ?? { seen: new Observations(), handles: 0 };
  shared.set(table, entry);
  entry.handles += 1;
  return {
    seen: entry.seen,
    release: () => {
      entry.handles -= 1;
      if (entry.handles === 0) shared.delete(table);
    },
  };
}
