import type { Event } from "../journal/event.js";

/** The run whose calls a person accepts. */
interface AcceptedRun {
  readonly mailbox: { accepts(call: string): boolean };
  now(): number;
  record(event: Event): void;
}

/** Calls that a person has accepted as the ones that the code asks for, whatever arguments the code asks with. */
export class Acceptances {
  readonly #run: AcceptedRun;
  readonly #journaled: Set<string>;

  constructor(run: AcceptedRun, journaled: Set<string>) {
    this.#run = run;
    this.#journaled = journaled;
  }

  /** In the journal, or in mail that is taken in after the replay. */
  has(call: string): boolean {
    return this.#journaled.has(call) || this.#run.mailbox.accepts(call);
  }

  add(call: string): void {
    this.#journaled.add(call);
    this.#run.record({ type: "accept", id: call, at: this.#run.now() });
  }
}
