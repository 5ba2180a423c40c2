import { decodeError } from "../../core/values/stored-error.js";
import { instantOf } from "../define/duration.js";
import type { Delivery } from "../journal/event.js";
import { pendingForever } from "../replay/requests.js";
import type { ServingRun } from "../replay/serving-run.js";

/** The sleeps of a run. The end of each, on the store's clock, is journaled, so a restart does not change it. */
export class Sleeps {
  readonly #run: ServingRun;
  readonly #pending = new Map<string, number>();

  constructor(run: ServingRun) {
    this.#run = run;
  }

  sleep(when: unknown): Promise<void> {
    const { requests, answers } = this.#run;
    const now = this.#run.now();
    const until = Math.ceil(instantOf("sleep", when, now));
    const id = requests.ordinal("sleep");
    const asked = requests.ask(id, () => ({ type: "sleep", id, at: now, until }));
    if (asked === undefined) return pendingForever();
    this.#pending.set(id, asked.event.type === "sleep" ? asked.event.until : until);
    const slept = new Promise<void>((resolve, reject) => {
      answers.on(id, (event) => {
        this.#pending.delete(id);
        if (event.type !== "cancelled") return resolve();
        // The code may have started the sleep without awaiting it.
        slept.catch(() => {});
        reject(decodeError(event.error));
      });
    });
    return slept;
  }

  /** When the next sleep ends. */
  next(): number | undefined {
    let next: number | undefined;
    for (const until of this.#pending.values()) if (next === undefined || until < next) next = until;
    return next;
  }

  /** Ends sleeps that are due, in the order of their times. */
  fire(now: number): void {
    const due = [...this.#pending].filter(([, until]) => until <= now).sort(([, a], [, b]) => a - b);
    for (const [id] of due) this.#run.arrivals.add(this.#wake(id));
  }

  /** Ids of the pending sleeps. */
  get pending(): readonly string[] {
    return [...this.#pending.keys()];
  }

  /** Ends the pending sleeps with these ids and returns the deliveries for the code. */
  wake(ids: readonly string[]): Delivery[] {
    return ids.filter((id) => this.#pending.has(id)).map((id) => this.#wake(id));
  }

  /** The run is being cancelled. Returns the ids of the pending sleeps, which do not end any more. */
  cancelAll(): readonly string[] {
    const ids = [...this.#pending.keys()];
    this.#pending.clear();
    return ids;
  }

  #wake(id: string): Delivery {
    this.#pending.delete(id);
    return { type: "woke", id, at: this.#run.now() };
  }
}
