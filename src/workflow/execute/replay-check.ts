import type { Then } from "../../core/runs/operation.js";
import type { RunRecord } from "../../core/runs/run.js";
import type { Store } from "../../core/store/store.js";
import { decode } from "../../core/values/codec.js";
import type { WorkflowDefinition } from "../define/definition.js";
import { type Event, isDelivery, isRequest } from "../journal/event.js";
import { History } from "../journal/history/history.js";
import type { Divergence } from "../replay/divergence.js";
import type { Rehearse } from "./host.js";

/** The run that is checked. */
interface CheckedRun extends Pick<RunRecord, "id" | "creator" | "epoch" | "parent" | "scope"> {
  readonly storedAttributes: string | null;
  readonly store: Store;
  readonly workflow: WorkflowDefinition;
  readonly startedAt: number;
  readonly ending: { readonly over: boolean; readonly reading: boolean };
  readonly draft: { readonly events: readonly Event[] };
  now(): number;
  /** The check has ended. Undefined if the code matches the journal. */
  finishCheck(divergence: Divergence | undefined): void;
}

interface CheckOptions {
  readonly history: History;
  /** The arguments of the run, encoded. */
  readonly input: string;
  readonly rehearse: Rehearse;
}

/**
 * Replays the code of a run before the run waits for the first time, and whenever it is about to leave memory. So a developer
 * learns immediately that code would diverge from its own journal, and not a day later.
 */
export class ReplayCheck {
  readonly #run: CheckedRun;
  readonly #input: string;
  readonly #rehearse: Rehearse;
  /** Requests and deliveries of the journal, kept here so that the check does not read the store. */
  readonly #events: Event[] = [];
  readonly #journaled: Pick<History, "accepted" | "renewals" | "retries" | "lineage">;
  /** The run has neither been checked nor replayed in this process. */
  #isFirst: boolean;
  /** Number of events that the last check covered. */
  #seen: number;
  #underWay = false;

  constructor(run: CheckedRun, { history, input, rehearse }: CheckOptions) {
    this.#run = run;
    this.#input = input;
    this.#rehearse = rehearse;
    const { accepted, renewals, retries, lineage } = history;
    // A copy, because a lineage is used up by the replay of its run.
    this.#journaled = { accepted, renewals, retries, lineage: lineage.copy() };
    this.#events.push(...history.requests.values(), ...history.deliveries);
    // A run with a journal has already been replayed.
    this.#isFirst = this.#events.length === 0;
    this.#seen = this.#events.length;
  }

  /** The run waits during the check: its code gets no deliveries, and nothing is committed. */
  get underWay(): boolean {
    return this.#underWay;
  }

  /** These events are now in the journal. */
  noteWritten(events: readonly Event[]): void {
    this.#events.push(...events.filter((event) => isRequest(event) || isDelivery(event)));
  }

  /** Starts a check if one is due. True if it has started: `finishCheck` is called at its end. */
  begin(leaving: Then | undefined, busy: boolean): boolean {
    const { ending, draft } = this.#run;
    if (ending.over || ending.reading || (busy && !this.#isFirst)) return false;
    // A run that waits for an operator is released without a check.
    if (leaving?.kind === "release" && leaving.status !== "running") return false;
    const drafted = draft.events;
    const count = this.#events.length + drafted.length;
    if ((!this.#isFirst && leaving === undefined) || count <= this.#seen) return false;
    this.#isFirst = false;
    this.#seen = count;
    this.#underWay = true;
    void this.#check([...this.#events, ...drafted]);
    return true;
  }

  async #check(events: readonly Event[]): Promise<void> {
    const { id, creator, epoch, parent, scope, storedAttributes, workflow, startedAt, store } = this.#run;
    const run = { id, creator, epoch, parent, consumed: 0, avoid: [], scope, attributes: storedAttributes };
    const history = History.of(events, this.#journaled);
    const args = decode(this.#input) as unknown[];
    const divergence = await this.#rehearse({ store, now: this.#run.now(), workflow, run, args, startedAt, history });
    this.#underWay = false;
    this.#run.finishCheck(divergence);
  }
}
