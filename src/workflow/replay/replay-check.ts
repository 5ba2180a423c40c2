import { decode } from "../../core/values/codec.js";
import { DivergenceError } from "../define/errors.js";
import type { Execution } from "../execute/execution.js";
import type { Rehearse } from "../execute/host.js";
import { type Event, isDelivery, isRequest } from "../journal/event.js";
import { History } from "../journal/history.js";
import { inputDifference } from "../journal/input-difference.js";
import type { Divergence } from "../worker/parking.js";

interface Checked {
  readonly history: History;
  /** The arguments of the run, encoded. */
  readonly input: string;
  readonly rehearse: Rehearse;
}

/**
 * Replays the code of a run before the run waits for the first time, and whenever it is about to leave memory: code that
 * would not find its way through its own journal is found while its author is there, not a day later.
 */
export class ReplayCheck {
  readonly #execution: Execution;
  readonly #input: string;
  readonly #rehearse: Rehearse;
  /** What the journal has. Kept here, so that the check needs no read of the store. */
  readonly #events: Event[] = [];
  readonly #accepted: ReadonlySet<string>;
  #rested = false;
  /** How many events the last check has seen. */
  #seen = 0;
  #underWay = false;

  constructor(execution: Execution, { history, input, rehearse }: Checked) {
    this.#execution = execution;
    this.#input = input;
    this.#rehearse = rehearse;
    this.#accepted = history.accepted;
    this.#events.push(...history.requests.values(), ...history.deliveries);
    // It has come through a replay already.
    this.#rested = this.#events.length > 0;
    this.#seen = this.#events.length;
  }

  /** The run waits while it is checked: nothing is told to its code, and nothing is committed. */
  get underWay(): boolean {
    return this.#underWay;
  }

  /** The run has not been checked in this process, and has not come through a replay. */
  get isFirst(): boolean {
    return !this.#rested;
  }

  /** The journal has these, too. */
  written(events: readonly Event[]): void {
    this.#events.push(...events.filter((event) => isRequest(event) || isDelivery(event)));
  }

  /** Checks when it is time to. True: it does, and the run is touched when that is over. */
  begin({ leaving }: { readonly leaving: boolean }): boolean {
    const { draft, ending } = this.#execution;
    const count = this.#events.length + draft.events.length;
    if (ending.over || ending.reading || (this.#rested && !leaving) || count <= this.#seen) return false;
    this.#rested = true;
    this.#seen = count;
    this.#underWay = true;
    void this.#check([...this.#events, ...draft.events]);
    return true;
  }

  async #check(events: readonly Event[]): Promise<void> {
    const { id, epoch, parent, workflow, startedAt, store } = this.#execution;
    const run = { id, epoch, parent, consumed: 0, avoid: [] };
    const history = History.of(events, this.#accepted);
    const args = decode(this.#input) as unknown[];
    const divergence = await this.#rehearse({ store, now: this.#execution.now(), workflow, run, args, startedAt, history });
    this.#underWay = false;
    if (divergence !== undefined) this.#report(divergence);
    this.#execution.touch();
  }

  #report(divergence: Divergence): void {
    const { id, parking, host, calls, gone, writer } = this.#execution;
    if (gone) return;
    const { input } = divergence;
    const was = input && calls.called(input.id)?.given.input();
    const difference = input && was ? inputDifference(was, input.asked) : undefined;
    const { message } = new DivergenceError(id, {
      ...divergence,
      ...(difference ? { difference } : {}),
      foreseen: true,
      unbegun: writer.isUnbegun,
    });
    if (parking.foreseen(message)) host.foresaw(id, message);
  }
}
