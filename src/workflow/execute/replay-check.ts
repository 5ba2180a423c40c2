import type { RunRecord } from "../../core/runs/run.js";
import type { Store } from "../../core/store/store.js";
import { decode } from "../../core/values/codec.js";
import type { WorkflowDefinition } from "../define/definition.js";
import { type Event, isDelivery, isRequest } from "../journal/event.js";
import { History } from "../journal/history.js";
import type { Divergence } from "../replay/divergence.js";
import type { Rehearse } from "./host.js";

/** The run that is checked. */
interface CheckedRun extends Pick<RunRecord, "id" | "epoch" | "parent"> {
  readonly store: Store;
  readonly workflow: WorkflowDefinition;
  readonly startedAt: number;
  now(): number;
  /** The check is over. Undefined: the code would find its way. */
  finishCheck(divergence: Divergence | undefined): void;
}

interface CheckOptions {
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
  readonly #run: CheckedRun;
  readonly #input: string;
  readonly #rehearse: Rehearse;
  /** What the journal has. Kept here, so that the check needs no read of the store. */
  readonly #events: Event[] = [];
  readonly #accepted: ReadonlySet<string>;
  #isFirst: boolean;
  /** How many events the last check has seen. */
  #seen: number;
  #underWay = false;

  constructor(run: CheckedRun, { history, input, rehearse }: CheckOptions) {
    this.#run = run;
    this.#input = input;
    this.#rehearse = rehearse;
    this.#accepted = history.accepted;
    this.#events.push(...history.requests.values(), ...history.deliveries);
    // With a journal it has come through a replay already.
    this.#isFirst = this.#events.length === 0;
    this.#seen = this.#events.length;
  }

  /** The run waits while it is checked: its code gets nothing, and nothing is committed. */
  get underWay(): boolean {
    return this.#underWay;
  }

  /** The run has not been checked in this process, and has not come through a replay. */
  get isFirst(): boolean {
    return this.#isFirst;
  }

  /** The journal has these, too. */
  noteWritten(events: readonly Event[]): void {
    this.#events.push(...events.filter((event) => isRequest(event) || isDelivery(event)));
  }

  /** Checks when it is time to. True: it does, and `finishCheck` is called when that is over. */
  begin({ leaving, drafted }: { readonly leaving: boolean; readonly drafted: readonly Event[] }): boolean {
    const count = this.#events.length + drafted.length;
    if ((!this.#isFirst && !leaving) || count <= this.#seen) return false;
    this.#isFirst = false;
    this.#seen = count;
    this.#underWay = true;
    void this.#check([...this.#events, ...drafted]);
    return true;
  }

  async #check(events: readonly Event[]): Promise<void> {
    const { id, epoch, parent, workflow, startedAt, store } = this.#run;
    const run = { id, epoch, parent, consumed: 0, avoid: [] };
    const history = History.of(events, this.#accepted);
    const args = decode(this.#input) as unknown[];
    const divergence = await this.#rehearse({ store, now: this.#run.now(), workflow, run, args, startedAt, history });
    this.#underWay = false;
    this.#run.finishCheck(divergence);
  }
}
