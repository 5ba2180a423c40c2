import { InvalidInputError } from "../../core/errors/errors.js";
import { hasEnded, type RunRecord } from "../../core/runs/run.js";
import type { Store } from "../../core/store/store.js";
import type { MemoryRuns } from "../../stores/memory/runs/table.js";
import { instantOf } from "../../workflow/define/duration.js";
import type { Bodies } from "./bodies.js";
import { type RunSituation, situationOf } from "./run-situation.js";
import type { Timeline } from "./timeline.js";
import type { VirtualClock } from "./virtual-clock.js";

export interface VirtualTimeOptions {
  readonly clock: VirtualClock;
  readonly epochMs: number;
  readonly store: Store;
  readonly memory: MemoryRuns;
  readonly bodies: Bodies;
  /** The owner id of the living worker. */
  readonly owner: () => string;
}

/** After so many moves of the clock without a change in the store, the runs count as stuck. */
const idleMax = 1000;

/**
 * Virtual time moves by itself only as far as a run needs it to continue: to the next attempt of a step, to the end of a
 * dead worker's lease. It stands still while a step's body runs, and while all runs sleep or wait.
 *
 * A pass ends in one of three states. rest: no run continues by itself. body: a step's body runs, so time stands still.
 * stuck: a run should continue and does not.
 */
export class VirtualTime implements Timeline {
  readonly advice = "The run does not continue by itself: advance the time, wake the run up, or resume its hook";
  readonly #options: VirtualTimeOptions;
  readonly #known = new WeakMap<RunRecord, { readonly entries: number; readonly situation: RunSituation }>();
  /** Serializes the moves of the clock. */
  #turn: Promise<unknown> = Promise.resolve();
  #scheduled = false;
  #changes = 0;

  constructor(options: VirtualTimeOptions) {
    this.#options = options;
    options.clock.onActivity = () => this.#schedule();
    options.bodies.onActivity = () => this.#schedule();
  }

  get now(): Date {
    const { clock, epochMs } = this.#options;
    return new Date(epochMs + clock.now());
  }

  async settle(): Promise<void> {
    while ((await this.#exclusively(() => this.#pass())) === "body") await this.#options.bodies.next();
  }

  async rest(): Promise<void> {
    const { bodies } = this.#options;
    while ((await this.#exclusively(() => this.#pass())) === "body" && bodies.awaited.length > 0) await bodies.nextOrGiveUp();
  }

  /** Fires all timers until then, in order; then settles, unless a body runs. */
  async advance(by: number | string): Promise<void> {
    if (typeof by !== "number" && typeof by !== "string")
      throw new InvalidInputError("advance", 'needs milliseconds, or a duration such as "10s" or "3d"');
    const ms = instantOf("advance", by, 0);
    await this.#exclusively(async () => {
      const until = this.#options.clock.now() + ms;
      for (;;) {
        await this.#calm();
        const next = this.#nextAt();
        if (next === undefined || next > until) break;
        await this.#moveTo(next);
      }
      await this.#moveTo(until);
      await this.#calm();
      await this.#pass();
    });
  }

  async until(run: string, met: (situation: RunSituation) => boolean): Promise<RunSituation | undefined> {
    for (;;) {
      const found = await this.#exclusively(() => this.#pass());
      const record = this.#options.memory.runs.get(run);
      const situation = record && this.#situation(record);
      if (situation === undefined || hasEnded(situation.status) || met(situation) || found !== "body") return situation;
      await this.#options.bodies.next();
    }
  }

  follow(): void {}

  close(): void {
    this.#options.bodies.onActivity = () => {};
    this.#options.clock.clear();
  }

  /** After any activity a run may need time to pass. */
  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    void this.#exclusively(async () => {
      this.#scheduled = false;
      await this.#pass();
    });
  }

  async #exclusively<T>(work: () => Promise<T>): Promise<T> {
    const mine = this.#turn.then(work);
    this.#turn = mine.catch(() => {});
    return await mine;
  }

  async #pass(): Promise<"rest" | "body" | "stuck"> {
    for (let idle = 0; idle < idleMax; idle++) {
      await this.#options.clock.quiet();
      if (this.#options.bodies.holding.length > 0) return "body";
      if (!this.#anyGoesOn()) return "rest";
      const next = this.#nextAt();
      if (next === undefined) return "stuck";
      if (await this.#moveTo(next)) idle = 0;
    }
    return "stuck";
  }

  /** Waits until nothing is ready to run and no body runs, except for bodies that the runner has given up. */
  async #calm(): Promise<void> {
    const { clock, bodies } = this.#options;
    await clock.quiet();
    while (bodies.awaited.length > 0) {
      await bodies.nextOrGiveUp();
      await clock.quiet();
    }
  }

  /** Moves the clock; true when the store changed. */
  async #moveTo(time: number): Promise<boolean> {
    const { clock, store } = this.#options;
    await clock.moveTo(time);
    const { flushes } = store.metrics;
    const changed = flushes !== this.#changes;
    this.#changes = flushes;
    if (changed) clock.refresh();
    return changed;
  }

  #anyGoesOn(): boolean {
    const { memory, owner } = this.#options;
    for (const run of memory.runs.values()) {
      if (hasEnded(run.status)) continue;
      const orphaned = run.owner !== null && run.owner !== owner();
      if (orphaned || this.#situation(run).goesOn) return true;
    }
    return false;
  }

  /** Time of the next timer or of the next due run. A worker sets timers only for runs in the near future, so runs count, too. */
  #nextAt(): number | undefined {
    const { clock, memory, owner, epochMs } = this.#options;
    let next = clock.nextAt();
    for (const { wakeAt, owner: of } of memory.runs.values()) {
      if (wakeAt === null || of === owner()) continue;
      const at = wakeAt - epochMs;
      // A run that is due already and is not claimed needs no more time.
      if (at > clock.now() && (next === undefined || at < next)) next = at;
    }
    return next;
  }

  #situation(run: RunRecord): RunSituation {
    const journal = this.#options.memory.journals.get(run.id) ?? [];
    const known = this.#known.get(run);
    if (known?.entries === journal.length) return known.situation;
    const situation = situationOf({ run, journal });
    this.#known.set(run, { entries: journal.length, situation });
    return situation;
  }
}
