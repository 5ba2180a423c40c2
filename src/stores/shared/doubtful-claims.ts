/** Longer than a statement of a lost connection can still be running on the server. */
const keptMs = 60_000;

interface Doubt {
  readonly worker: number;
  readonly claim: number;
  readonly until: number;
}

/**
 * Claims whose reply was lost. Their packets belong to the worker, but it does not know them and would never deliver them. So every
 * claim has a number that is written into the rows it claims, and the worker's next claims first release the packets of doubtful
 * claims. For a while, because the server may still execute a claim after its connection was lost.
 */
export class Doubts {
  #doubts: Doubt[] = [];
  // Begins with the time, so that the numbers differ from those of an earlier process with the same worker number.
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
