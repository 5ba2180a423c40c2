/** Counters of this process since the outbox was created. */
export interface OutboxMetrics {
  /** Messages passed to `add`, including those of transactions that were rolled back. */
  readonly added: number;
  /** Messages published and recorded as such. */
  readonly published: number;
  readonly retried: number;
  readonly dead: number;
  /** Attempts that ended after another relay had taken the message over: it may have been published twice. */
  readonly stale: number;
  readonly leasesLost: number;
  /** Messages that this process is publishing now. */
  readonly inFlight: number;
}

export type Counts = { -readonly [Name in keyof Omit<OutboxMetrics, "inFlight">]: number };

export function noCounts(): Counts {
  return { added: 0, published: 0, retried: 0, dead: 0, stale: 0, leasesLost: 0 };
}
