import { assert } from "../../core/errors/errors.js";
import type { DeliveryRecord } from "../journal/draft.js";
import type { Delivery } from "../journal/event.js";
import type { Answers } from "../replay/answers.js";

/** The run that deliveries come in for. */
interface ReceivingRun {
  readonly draft: { recordDelivery(delivery: DeliveryRecord): void };
  readonly answers: Answers;
  readonly mailbox: { consume(mail: number): void };
  readonly ending: {
    /** The code has returned, or the run ends. */
    readonly over: boolean;
    readonly recorded: boolean;
    /** The code has returned, and the run waits for what this delivery is about. */
    waitsFor(delivery: Delivery): boolean;
  };
  touch(): void;
}

interface Arrival {
  /**
   * What the code gets of it. Asked when its turn comes, so that all that follows from a piece of mail is recorded
   * together with its being taken in: an entry that was cut between the two would lose the mail.
   */
  readonly take: () => readonly DeliveryRecord[];
  readonly mail: number | undefined;
}

/**
 * Deliveries that came in while the run is live, one per turn of the event loop: recorded first, then given to the code, so
 * that the journal has them in the order in which the code got them.
 */
export class Arrivals {
  readonly #run: ReceivingRun;
  #coming: Arrival[] = [];
  /** Recorded already, in this order; the code gets one of them per turn. */
  #recorded: Delivery[] = [];

  constructor(run: ReceivingRun) {
    this.#run = run;
  }

  /** A delivery for the code. Null: mail that the code gets nothing of. */
  add(event: Delivery | null, mail?: number, streams?: DeliveryRecord["streams"]): void {
    this.decide(() => (event === null ? [] : [{ event, streams }]), mail);
  }

  /** What the code gets is decided when its turn comes. `take` may record what else follows. */
  decide(take: Arrival["take"], mail?: number): void {
    this.#coming.push({ take, mail });
    this.#run.touch();
  }

  /** How many came in that the code has not got. */
  get waiting(): number {
    return this.#coming.length + this.#recorded.length;
  }

  /** Gives the code the next one. False: there is none. */
  giveNext(): boolean {
    return this.#giveRecorded() || this.#takeNext();
  }

  #giveRecorded(): boolean {
    const next = this.#recorded.shift();
    if (next !== undefined) this.#give(next);
    return next !== undefined;
  }

  #takeNext(): boolean {
    const next = this.#coming.shift();
    if (next === undefined) return false;
    const { ending } = this.#run;
    // The code has returned, and the run waits for steps: only verdicts of those still matter to it.
    this.#recorded.push(...this.#record(next).filter((delivery) => !ending.over || ending.waitsFor(delivery)));
    this.#giveRecorded();
    return true;
  }

  #record({ take, mail }: Arrival): Delivery[] {
    const { draft, mailbox, ending } = this.#run;
    if (mail !== undefined) mailbox.consume(mail);
    const records = take().filter(({ event }) => !ending.over || mattersAtTheEnd(event));
    return records.map((record) => {
      draft.recordDelivery(record);
      return record.event;
    });
  }

  /** This one is recorded already. The code gets it at once, unless others that were recorded before it still wait. */
  give(delivery: Delivery): void {
    if (this.#recorded.length > 0) this.#recorded.push(delivery);
    else this.#give(delivery);
  }

  #give(delivery: Delivery): void {
    const isGiven = this.#run.answers.give(delivery);
    assert(isGiven, `the code waits for ${delivery.id}`);
  }

  /** The run goes back to the store at once: what came in is recorded, and the next owner's replay gives it to the code. */
  recordAll(): void {
    for (const arrival of this.#coming.splice(0)) this.#record(arrival);
    this.#recorded = [];
  }

  /** The run ends: verdicts of what still ran are recorded, and the code does not get them; everything else is dropped. */
  recordVerdicts(): void {
    const { draft, ending } = this.#run;
    this.#recorded = [];
    for (const { take } of this.#coming.splice(0)) {
      if (ending.recorded) continue;
      for (const record of take()) {
        if (!isVerdict(record.event)) continue;
        draft.recordDelivery(record);
        this.#run.touch();
      }
    }
  }

  discard(): void {
    this.#coming = [];
    this.#recorded = [];
  }
}

function isVerdict({ type }: Delivery): boolean {
  return type === "done" || type === "fail";
}

/** The code has returned, and the run waits for steps that the code did not await. */
function mattersAtTheEnd(delivery: Delivery): boolean {
  return isVerdict(delivery) || delivery.type === "cancel";
}
