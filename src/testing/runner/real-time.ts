import { setTimeout } from "node:timers/promises";
import { ConfigurationError } from "../../core/errors/errors.js";
import { hasEnded } from "../../core/runs/run.js";
import type { Store } from "../../core/store/store.js";
import { type RunSituation, recordOf, situationOf } from "./run-situation.js";
import type { Timeline } from "./timeline.js";

const lookMs = 5;

/** Real time, for a store that the test passes to the runner: waits by polling the store. */
export class RealTime implements Timeline {
  readonly advice: string;
  readonly #store: Store;
  readonly #patienceMs: number;
  readonly #followed = new Set<string>();

  constructor(store: Store, patienceMs: number) {
    this.#store = store;
    this.#patienceMs = patienceMs;
    this.advice = `Waited ${patienceMs} ms of real time: wake the run up, resume its hook, or raise patienceMs`;
  }

  get now(): Date {
    return new Date();
  }

  async advance(): Promise<void> {
    throw new ConfigurationError(
      "[onceflow] advance(…) moves virtual time, but time is real on a store that is passed to testWorkflows; leave out the option store",
      { code: "NO_VIRTUAL_TIME" },
    );
  }

  async settle(): Promise<void> {
    for (const run of this.#followed) await this.until(run, ({ goesOn }) => !goesOn);
  }

  async rest(): Promise<void> {
    await this.settle();
  }

  async until(run: string, met: (situation: RunSituation) => boolean): Promise<RunSituation | undefined> {
    const deadline = performance.now() + this.#patienceMs;
    for (;;) {
      const record = await recordOf(this.#store, run);
      const situation = record && situationOf(record);
      if (situation === undefined || hasEnded(situation.status) || met(situation) || performance.now() > deadline) return situation;
      await setTimeout(lookMs);
    }
  }

  follow(run: string): void {
    this.#followed.add(run);
  }

  close(): void {}
}
