import { assert } from "../../core/errors/errors.js";
import type { Chunk, Voided } from "../../core/runs/chunk.js";
import type { Execution } from "../execute/execution.js";
import { describe } from "../journal/describe.js";
import type { Delivery } from "../journal/event.js";

/** What becomes of a step's chunks with its verdict. */
interface Settled {
  readonly ends: readonly Chunk[];
  readonly voids: readonly Voided[];
}

/** Something that the code is told, and what goes with it. */
export interface Told {
  readonly event: Delivery;
  readonly streams?: Settled | undefined;
}

interface Arrival {
  /**
   * What the code is told of it. Asked when its turn comes, so that all that follows from a piece of mail is recorded
   * together with its being taken in: an entry that was cut between the two would lose the mail.
   */
  readonly take: () => readonly Told[];
  readonly mail: number | undefined;
}

/**
 * What the code of a run is told, one thing at a time: first what the journal says that it was told, then what comes in.
 * That is recorded as it is told, so the journal has it in the order in which the code heard it.
 */
export class Deliveries {
  readonly #execution: Execution;
  readonly #journaled: readonly Delivery[];
  /** How many of those the code was told. */
  #told = 0;
  #coming: Arrival[] = [];
  /** Recorded already, in this order; the code is told one of them per turn. */
  #recorded: Delivery[] = [];
  readonly #handlers = new Map<string, (event: Delivery) => void>();
  #codeClock: number;
  #unreadable: string | undefined;

  constructor(execution: Execution, journaled: readonly Delivery[]) {
    this.#execution = execution;
    this.#journaled = journaled;
    this.#codeClock = execution.startedAt;
  }

  /** Whom a delivery about this id is for. */
  on(id: string, handler: (event: Delivery) => void): void {
    this.#handlers.set(id, handler);
  }

  /** Something for the code: it is told, and the telling recorded, when its turn comes. Null: mail that tells the code nothing. */
  add(event: Delivery | null, mail?: number, streams?: Settled): void {
    this.decide(() => (event === null ? [] : [{ event, streams }]), mail);
  }

  /** What the code is told is decided when its turn comes. `take` may record what else follows. */
  decide(take: Arrival["take"], mail?: number): void {
    this.#coming.push({ take, mail });
    this.#execution.touch();
  }

  /** False: there is nothing to tell now. */
  tellNext(): boolean {
    const journaled = this.nextJournaled;
    if (journaled !== undefined) return this.#tellJournaled(journaled);
    const { state, writer, ending } = this.#execution;
    if (state !== "live" || writer.inTransaction) return false;
    if (ending.result === undefined) return this.#tellRecorded() || this.#tellComing();
    this.#recordVerdicts();
    return false;
  }

  #tellRecorded(): boolean {
    const next = this.#recorded.shift();
    if (next !== undefined) this.#tellNow(next);
    return next !== undefined;
  }

  #tellJournaled(event: Delivery): boolean {
    const { ending, parking } = this.#execution;
    const handler = this.#handlers.get(event.id);
    this.#told += 1;
    if (handler) this.#tell(event, handler);
    // Else they are verdicts of what the code had left behind when it ended.
    else if (!ending.over) parking.diverged({ expected: describe(event), found: "the code did not ask for it" });
    return true;
  }

  #tellComing(): boolean {
    const next = this.#coming.shift();
    if (next === undefined) return false;
    const { ending } = this.#execution;
    // The code has returned, and the run waits for steps: the code is told of those, and of nothing else.
    this.#recorded.push(...this.#record(next).filter((event) => !ending.over || ending.waitsFor(event)));
    this.#tellRecorded();
    return true;
  }

  #record({ take, mail }: Arrival): Delivery[] {
    const { draft, mailbox, ending } = this.#execution;
    if (mail !== undefined) mailbox.consume(mail);
    const told = take().filter(({ event }) => !ending.over || mattersAtTheEnd(event));
    return told.map(({ event, streams }) => {
      draft.record(event);
      if (streams) draft.writeChunks(streams.ends, streams.voids);
      return event;
    });
  }

  /** The run is handed back at once: what came in is recorded, and told to the code by the next owner's replay. */
  recordAll(): void {
    for (const delivery of this.#coming.splice(0)) this.#record(delivery);
    this.#recorded = [];
  }

  /** The code is over: verdicts of what still ran are recorded, and told to nobody; whatever else comes in is for nobody. */
  #recordVerdicts(): void {
    const { draft, ending } = this.#execution;
    this.#recorded = [];
    for (const { take } of this.#coming.splice(0)) {
      if (ending.recorded) continue;
      for (const { event, streams } of take()) {
        if (!isVerdict(event)) continue;
        this.#execution.record(event);
        if (streams) draft.writeChunks(streams.ends, streams.voids);
      }
    }
  }

  /** It is recorded already. Told at once, unless something that was recorded before it was not told yet. */
  tell(event: Delivery): void {
    if (this.#recorded.length > 0) this.#recorded.push(event);
    else this.#tellNow(event);
  }

  #tellNow(event: Delivery): void {
    const handler = this.#handlers.get(event.id);
    assert(handler !== undefined, `somebody is told of ${event.id}`);
    this.#tell(event, handler);
  }

  #tell(event: Delivery, handler: (event: Delivery) => void): void {
    this.#codeClock = Math.max(this.#codeClock, event.at);
    try {
      handler(event);
    } catch (error) {
      this.#unreadable = `${describe(event)} cannot be read: ${error instanceof Error ? error.message : String(error)}`;
    }
  }

  /** What the code is told next, as the journal says. Undefined: it was told all of that. */
  get nextJournaled(): Delivery | undefined {
    return this.#journaled[this.#told];
  }

  /** What came in and was not told. */
  get waiting(): number {
    return this.#coming.length + this.#recorded.length;
  }

  /** The code's own clock, the time of what it was last told: stands still in between, and is the same at every replay. */
  get codeClock(): number {
    return this.#codeClock;
  }

  /** Why the code can't be told what it is to be told: its class or step is not defined in this process, say. */
  get unreadable(): string | undefined {
    return this.#unreadable;
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
function mattersAtTheEnd(event: Delivery): boolean {
  return isVerdict(event) || event.type === "cancel";
}
