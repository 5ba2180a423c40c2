import type { Chunk, Voided } from "../core/chunk.js";
import { assert } from "../core/errors.js";
import { describe } from "./describe.js";
import type { Event } from "./event.js";
import type { Execution } from "./execution.js";

/** What becomes of a step's chunks with its verdict. */
interface Settled {
  readonly ends: readonly Chunk[];
  readonly voids: readonly Voided[];
}

interface Delivery {
  /** Null: mail that is taken in without telling the code. */
  readonly event: Event | null;
  readonly mail: number | undefined;
  readonly streams: Settled | undefined;
}

/**
 * What the code of a run is told, one thing at a time: first what the journal says that it was told, then what comes in.
 * That is recorded as it is told, so the journal has it in the order in which the code heard it.
 */
export class Deliveries {
  readonly #execution: Execution;
  readonly #journaled: readonly Event[];
  /** How many of those the code was told. */
  #told = 0;
  #coming: Delivery[] = [];
  readonly #handlers = new Map<string, (event: Event) => void>();
  #codeClock: number;
  #unreadable: string | undefined;

  constructor(execution: Execution, journaled: readonly Event[]) {
    this.#execution = execution;
    this.#journaled = journaled;
    this.#codeClock = execution.startedAt;
  }

  /** Whom a delivery about this id is for. */
  on(id: string, handler: (event: Event) => void): void {
    this.#handlers.set(id, handler);
  }

  /** Something for the code: it is told, and the telling recorded, when its turn comes. */
  add(event: Event | null, mail?: number, streams?: Settled): void {
    this.#coming.push({ event, mail, streams });
    this.#execution.touch();
  }

  /** False: there is nothing to tell now. */
  tellNext(): boolean {
    const journaled = this.nextJournaled;
    if (journaled !== undefined) return this.#tellJournaled(journaled);
    const { state, writer, ending } = this.#execution;
    if (state !== "live" || writer.inTransaction) return false;
    if (ending.result === undefined) return this.#tellComing();
    this.#recordVerdicts();
    return false;
  }

  #tellJournaled(event: Event): boolean {
    const { ending, parking } = this.#execution;
    const handler = this.#handlers.get(event[1]);
    this.#told += 1;
    if (handler) this.#tell(event, handler);
    // Else they are verdicts of what the code had left behind when it ended.
    else if (ending.result === undefined) parking.diverged({ expected: describe(event), found: "the code did not ask for it" });
    return true;
  }

  #tellComing(): boolean {
    const next = this.#coming.shift();
    if (next === undefined) return false;
    const { draft, mailbox } = this.#execution;
    if (next.mail !== undefined) mailbox.consume(next.mail);
    if (next.event === null) return true;
    draft.record(next.event);
    if (next.streams) draft.writeChunks(next.streams.ends, next.streams.voids);
    this.tell(next.event);
    return true;
  }

  /** The code is over: verdicts of what still ran are recorded, and told to nobody; whatever else comes in is for nobody. */
  #recordVerdicts(): void {
    const { draft, ending } = this.#execution;
    for (const { event, streams } of this.#coming.splice(0)) {
      if ((event?.[0] !== "done" && event?.[0] !== "fail") || ending.recorded) continue;
      this.#execution.record(event);
      if (streams) draft.writeChunks(streams.ends, streams.voids);
    }
  }

  /** At once: it is recorded already. */
  tell(event: Event): void {
    const handler = this.#handlers.get(event[1]);
    assert(handler !== undefined, `somebody is told of ${event[1]}`);
    this.#tell(event, handler);
  }

  #tell(event: Event, handler: (event: Event) => void): void {
    this.#codeClock = Math.max(this.#codeClock, event[2]);
    try {
      handler(event);
    } catch (error) {
      this.#unreadable = `${describe(event)} cannot be read: ${error instanceof Error ? error.message : String(error)}`;
    }
  }

  /** What the code is told next, as the journal says. Undefined: it was told all of that. */
  get nextJournaled(): Event | undefined {
    return this.#journaled[this.#told];
  }

  /** What came in and was not told. */
  get waiting(): number {
    return this.#coming.length;
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
  }
}
