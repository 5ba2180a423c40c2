import { type RecordId, rowOf } from "../../../core/ledger/record.js";

/** The clocks of this process. Tests replace them by wrong clocks. */
export interface Time {
  /** Whole milliseconds, never decreasing. */
  monotonic(): number;
  /** Milliseconds since 1970 on the machine's clock. */
  wall(): number;
}

const systemTime: Time = { monotonic: () => Math.floor(performance.now()), wall: () => Date.now() };

/** One instant on both clocks, read together, because the machine's clock may be changed between two readings. */
export interface Moment {
  readonly now: number;
  readonly monotonic: number;
}

/** A version of a running record. */
interface Version {
  readonly rev: number;
  readonly owner: string;
}

/** The version that was seen, and when its lease expires on this process's monotonic clock. */
interface Seen extends Version {
  readonly endsAt: number;
}

/** Maximum number of observed records. If an observation is dropped, its record is taken over later, never earlier. */
const seenMax = 50_000;
/** The machine's clock may be slewed; a larger difference means that it was set. */
const driftMsMax = 1000;

/**
 * DynamoDB conditions cannot use a server clock, and the clocks of two machines may differ by a day. So instants of different
 * clocks are never compared. A lease counts as expired when this process has seen the same version of the record for the length of
 * the lease, on its own monotonic clock. Every renewal is a new version.
 *
 * A version is first seen after it was written, so the lease expires here later than for its owner, and two attempts never
 * overlap. The price: a process that sees a dead attempt for the first time waits for the length of a lease before it takes over.
 *
 * Instants that are stored are on a clock that runs like the monotonic one and is adjusted when the machine's clock was set.
 */
export class Observations {
  readonly #time: Time;
  /** Difference between the time since 1970 and the monotonic clock. */
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

  /** When the lease of a running record expires for this process, seen at `moment`. */
  leaseUntil(id: RecordId, { rev, owner, leaseMs }: Version & { readonly leaseMs: number }, { now, monotonic }: Moment): number {
    const seen = this.#seenOf(id);
    const endsAt = seen?.rev === rev && seen.owner === owner ? seen.endsAt : monotonic + leaseMs;
    if (seen?.endsAt !== endsAt) this.saw(id, { rev, owner, endsAt });
    return endsAt - monotonic + now;
  }

  /** Records a version that this process has written itself: its lease counts from before it was sent, as it does for its owner. */
  saw(id: RecordId, seen: Seen): void {
    this.#remember(rowOf(id), seen);
  }

  /** Whether this process has seen a later version: then the version that was read is outdated. */
  knowsLater(id: RecordId, rev: number): boolean {
    return (this.#seenOf(id)?.rev ?? 0) > rev;
  }

  /** The remaining lease of an owner in this process. */
  leaseLeft(id: RecordId, owner: string, { monotonic }: Moment): number {
    const seen = this.#seenOf(id);
    return seen?.owner === owner ? seen.endsAt - monotonic : 0;
  }

  /** Records that a record is settled: it was replayed, and may be again. */
  sawSettled(id: RecordId): void {
    this.#remember(rowOf(id), "settled");
  }

  forget(id: RecordId): void {
    this.#seen.delete(rowOf(id));
  }

  /** Whether a record probably exists: then reading it first costs less than a write that is refused. */
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

/** The observations that all stores of this process on one table share. Call `release` when a store is closed. */
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
