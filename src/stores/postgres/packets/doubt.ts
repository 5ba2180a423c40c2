/** Longer than a statement of a lost connection can still be under way. */
const keptMs = 60_000;

interface Doubt {
  readonly worker: number;
  readonly claim: number;
  readonly until: number;
}

/**
 * Claims whose reply was lost. What they took is the worker's, and it does not know: nobody would deliver it. So every claim has
 * a name, which stands in the rows that it took; and the worker's next claim first gives back what doubtful ones took. For a
 * while, because the server may still be at it when nobody hears it any more.
 */
export class Doubts {
  #doubts: Doubt[] = [];
  // Another process that had this worker's number, before a restart say, would have counted from elsewhere.
  #claims = Date.now() * 1000;

  next(): number {
    this.#claims += 1;
    return this.#claims;
  }

  add(worker: number, claim: number): void {
    this.#doubts.push({ worker, claim, until: performance.now() + keptMs });
  }

  of(worker: number): number[] {
    const now = performance.now();
    this.#doubts = this.#doubts.filter(({ until }) => until > now);
    return this.#doubts.filter((doubt) => doubt.worker === worker).map(({ claim }) => claim);
  }
}
