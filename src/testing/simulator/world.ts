import { AsyncResource } from "node:async_hooks";
import type { Clock } from "../../core/work/clock.js";
import type { Random } from "./random.js";

interface Event {
  readonly at: number;
  readonly host: SimulatedProcess | undefined;
  readonly fn: () => void;
}

/** The first instant of virtual time, in ms. */
export const startOfWorld = 1_000_000;

/**
 * Virtual time and the events that wait for it. Nothing in a simulation waits for anything else, so that the seed alone decides the
 * order of events. Of several events that are due at the same time, a random one runs first.
 */
export class World {
  readonly random: Random;
  readonly #events = new Set<Event>();
  #now = startOfWorld;
  steps = 0;

  constructor(random: Random) {
    this.random = random;
  }

  now(): number {
    return this.#now;
  }

  after(ms: number, fn: () => void, host?: SimulatedProcess): () => void {
    const event = { at: this.#now + Math.max(0, ms), host, fn };
    this.#events.add(event);
    return () => void this.#events.delete(event);
  }

  wait(ms: number): Promise<void> {
    return new Promise((resolve) => void this.after(ms, resolve));
  }

  /** Runs events until `done` (returns true), or until no event is left or `stepsMax` is reached (returns false): then something waits without end. */
  async run(done: () => boolean, stepsMax: number): Promise<boolean> {
    for (;;) {
      // All promises that can settle without another event have settled after this.
      await new Promise<void>((go) => void setImmediate(go));
      if (done()) return true;
      const event = this.#next();
      if (event === undefined || this.steps >= stepsMax) return false;
      this.steps += 1;
      this.#events.delete(event);
      this.#now = Math.max(this.#now, this.#dueAt(event));
      event.fn();
    }
  }

  /** Events of a paused process are due at the end of its pause. */
  #dueAt({ at, host }: Event): number {
    return host === undefined ? at : Math.max(at, host.pausedUntil);
  }

  #next(): Event | undefined {
    let due = Number.POSITIVE_INFINITY;
    let ready: Event[] = [];
    for (const event of this.#events) {
      if (event.host?.dead) {
        this.#events.delete(event);
        continue;
      }
      const at = this.#dueAt(event);
      if (at < due) {
        due = at;
        ready = [event];
      } else if (at === due) ready.push(event);
    }
    return ready.length === 0 ? undefined : this.random.pick(ready);
  }
}

/** A simulated process: its timers never fire after its death, and fire late while it is paused. */
export class SimulatedProcess {
  readonly id: number;
  readonly clock: Clock;
  dead = false;
  pausedUntil = 0;

  constructor(world: World, id: number) {
    this.id = id;
    this.clock = {
      now: () => world.now(),
      soon: (fn) => void world.after(0, inContext(fn), this),
      after: (ms, fn) => world.after(ms, inContext(fn), this),
    };
  }
}

/** Binds `fn` to the current async context, as a real timer does. */
export function inContext(fn: () => void): () => void {
  const context = new AsyncResource("simulated timer");
  return () => context.runInAsyncScope(fn);
}

/** The result of a call whose process has died: a promise that never settles. */
export function never<T>(): Promise<T> {
  return new Promise(() => {});
}
