import { assert } from "../../core/errors/errors.js";
import type { Delivery } from "../journal/event.js";
import type { DeliveryRecord } from "../journal/writer/draft.js";
import type { Answers } from "../replay/answers.js";

/** The run that receives deliveries. */
interface ReceivingRun {
  readonly draft: { recordDelivery(delivery: DeliveryRecord): void };
  readonly answers: Answers;
  readonly mailbox: { consume(mail: number): void };
  readonly pausing: { readonly isPaused: boolean };
  readonly ending: {
    /** The code has returned, or the run is ending. */
    readonly over: boolean;
    readonly recorded: boolean;
    /** The code has returned, and the run still waits for this delivery. */
    waitsFor(delivery: Delivery): boolean;
  };
  touch(): void;
}

interface Arrival {
  /**
   * Returns the deliveries for the code. Called when the arrival is processed, so that the consequences of a mail are recorded
   * in the same entry that consumes the mail: if an entry contained only one of the two, a crash would lose the mail.
   */
  readonly take: () => readonly DeliveryRecord[];
  readonly mail: number | undefined;
  /** False: neither this arrival nor a later one is taken yet. */
  readonly isReady?: (() => boolean) | undefined;
  /** It comes from a body, and would be lost if it were not recorded: mail is kept, timers fire again, and polls are repeated. */
  readonly isFromBody: boolean;
}

/**
 * Deliveries that arrive while the run is live. One per turn is recorded and then given to the code, so that the journal has
 * them in the order in which the code gets them.
 */
export class Arrivals {
  readonly #run: ReceivingRun;
  #coming: Arrival[] = [];
  /** Already recorded, in this order; the code gets one of them per turn. */
  #recorded: Delivery[] = [];
  /** The run is being released: the code gets nothing more here. */
  #isClosed = false;

  constructor(run: ReceivingRun) {
    this.#run = run;
  }

  /** Adds a delivery for the code. Null: mail without a delivery for the code. */
  add(event: Delivery | null, mail?: number, streams?: DeliveryRecord["streams"]): void {
    const isFromBody = event !== null && (isVerdict(event) || event.type === "aborted");
    this.#add({ take: () => (event === null ? [] : [{ event, streams }]), mail, isFromBody });
  }

  /** Adds an arrival whose deliveries are decided when it is processed. `take` may record other events. */
  decide(take: Arrival["take"], mail?: number, isReady?: Arrival["isReady"]): void {
    this.#add({ take, mail, isReady, isFromBody: false });
  }

  #add(arrival: Arrival): void {
    this.#coming.push(arrival);
    this.#run.touch();
  }

  /** Number of arrivals that the code has not received. */
  get waiting(): number {
    return this.#coming.length + this.#recorded.length;
  }

  /** Gives the code the next delivery. False if there is none, or the run is paused or released. */
  giveNext(): boolean {
    if (this.#isClosed) return false;
    if (this.#run.pausing.isPaused) return this.#recordPaused();
    return this.#giveRecorded() || this.#takeNext();
  }

  /** Outcomes of bodies are recorded, and the code gets them after the pause. Everything else waits. */
  #recordPaused(): false {
    const now = this.#coming.filter(({ isFromBody }) => isFromBody);
    this.#coming = this.#coming.filter(({ isFromBody }) => !isFromBody);
    for (const arrival of now) this.#recorded.push(...this.#record(arrival));
    if (now.length > 0) this.#run.touch();
    return false;
  }

  #giveRecorded(): boolean {
    const next = this.#recorded.shift();
    if (next !== undefined) this.#give(next);
    return next !== undefined;
  }

  #takeNext(): boolean {
    if (this.#coming[0]?.isReady?.() === false) return false;
    const next = this.#coming.shift();
    if (next === undefined) return false;
    const { ending } = this.#run;
    for (const delivery of this.#record(next)) {
      // After the code has returned, only verdicts of the steps that the run waits for matter.
      if (!ending.over || ending.waitsFor(delivery)) this.#recorded.push(delivery);
    }
    this.#giveRecorded();
    return true;
  }

  #record({ take, mail }: Arrival): Delivery[] {
    const { draft, mailbox, ending } = this.#run;
    if (mail !== undefined) mailbox.consume(mail);
    const deliveries: Delivery[] = [];
    for (const record of take()) {
      if (ending.over && !mattersAtTheEnd(record.event)) continue;
      draft.recordDelivery(record);
      deliveries.push(record.event);
    }
    return deliveries;
  }

  /** Gives the code a delivery that is already recorded; if earlier recorded ones still wait, after those. */
  give(delivery: Delivery): void {
    if (this.#recorded.length > 0 || this.#run.pausing.isPaused) this.#recorded.push(delivery);
    else this.#give(delivery);
  }

  #give(delivery: Delivery): void {
    const isGiven = this.#run.answers.give(delivery);
    assert(isGiven, `the code waits for ${delivery.id}`);
  }

  /**
   * The run is released immediately: arrivals are recorded, and the replay of the next owner gives them to the code. What arrives while the release is being
   * written is not given to the code either: it would get that before what was recorded here.
   */
  recordAll(): void {
    this.#isClosed = true;
    const { isPaused } = this.#run.pausing;
    if (isPaused) this.#recordPaused();
    else for (const arrival of this.#coming.splice(0)) this.#record(arrival);
    this.#recorded = [];
  }

  /** The run ends: verdicts of steps that still ran are recorded but not given to the code; other arrivals are dropped. */
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
  return type === "done" || type === "fail" || type === "cancelled";
}

/** What is recorded while the code has returned and the run waits for steps that the code did not await. */
function mattersAtTheEnd(delivery: Delivery): boolean {
  return isVerdict(delivery) || delivery.type === "cancel" || delivery.type === "stop";
}
