/** Counted since the outbox was made, in this process. */
export interface OutboxMetrics {
  /** Handed to `add`; those of transactions that were rolled back, too. */
  readonly added: number;
  /** Published and settled. */
  readonly published: number;
  readonly retried: number;
  readonly dead: number;
  /** Tried here, and another relay's by then: it may have been published twice. */
  readonly stale: number;
  readonly leasesLost: number;
  /** Being published here now. */
  readonly inFlight: number;
}

export type Counts = { -readonly [Name in keyof Omit<OutboxMetrics, "inFlight">]: number };

export function noCounts(): Counts {
  return { added: 0, published: 0, retried: 0, dead: 0, stale: 0, leasesLost: 0 };
}
