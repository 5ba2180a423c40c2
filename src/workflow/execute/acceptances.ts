import type { Event } from "../journal/event.js";

/** The run whose calls an operator accepts. */
interface AcceptedRun {
  readonly mailbox: { accepts(call: string): boolean };
  now(): number;
  record(event: Event): void;
}

/** Journaled calls that an operator has accepted, whatever arguments the code calls the step with. */
export class Acceptances {
  readonly #run: AcceptedRun;
  readonly #journaled: Set<string>;

  constructor(run: AcceptedRun, journaled: Set<string>) {
    this.#run = run;
    this.#journaled = journaled;
  }

  /** Accepted in the journal, or in mail that is read after the replay. */
  has(call: string): boolean {
    return this.#journaled.has(call) || this.#run.mailbox.accepts(call);
  }

  add(call: string): void {
    this.#journaled.add(call);
    this.#run.record({ type: "accept", id: call, at: this.#run.now() });
  }
}
