import { AsyncResource } from "node:async_hooks";
import type { Clock } from "../../core/work/clock.js";
import type { Random } from "./random.js";

/**
 * Virtual time and everything that waits for it. Nothing in the simulation waits for anything else, so that the order
 * of events is the seed's and nobody else's: of those due at one instant a random one goes first.
 */
interface Event {
  readonly at: number;
  readonly host: SimulatedProcess | undefined;
  readonly fn: () => void;
}

export class World {
  readonly random: Random;
  readonly #events = new Set<Event>();
  #now = 1_000_000;
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

  /** Runs events until `done`, or until `stepsMax`, which means that something waits for ever. */
  async run(done: () => boolean, stepsMax: number): Promise<boolean> {
    for (;;) {
      // All promises that are ready have run when this comes back.
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

  /** The dead never wake; the paused wake late. */
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

/** A process of the simulated fleet: its timers stop when it dies, and are late when it is paused. */
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

/** As a real timer does, it keeps the async context in which it was set. */
export function inContext(fn: () => void): () => void {
  const context = new AsyncResource("simulated timer");
  return () => context.runInAsyncScope(fn);
}

/** What a call into the store gets when its process has died meanwhile: no answer, ever. */
export function never<T>(): Promise<T> {
  return new Promise(() => {});
}
