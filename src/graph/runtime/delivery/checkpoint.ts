import type { Clock } from "../../../core/work/clock.js";
import type { Route } from "../flows/routes.js";
import { Gather } from "./gather.js";

/** How long deliveries wait for each other. */
const waitMs = 200;
/**
 * Edges of mode `checkpoint` that save only now and then: deliveries wait until there are so many, or until nobody is left to
 * wait for, and commit together. What dies before that is delivered again.
 */
export class Checkpoints {
  readonly #clock: Clock;
  readonly #turns = new Map<Route, Gather<() => void>>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Undefined: at once. */
  turnOf(route: Route): Promise<void> | undefined {
    const { mode, checkpointEvery } = route.delivery;
    if (mode !== "checkpoint" || checkpointEvery <= 1) return undefined;
    const turn = this.#turns.get(route) ?? new Gather(this.#clock, checkpointEvery, waitMs, goAll);
    this.#turns.set(route, turn);
    return new Promise((go) => {
      turn.add(go);
      this.ended(route);
    });
  }

  /** Nobody is left to wait for? */
  ended(route: Route): void {
    if (this.#turns.size === 0) return;
    const turn = this.#turns.get(route);
    if (turn !== undefined && turn.waiting >= route.load.taken) turn.flush();
  }

  flush(): void {
    for (const turn of this.#turns.values()) turn.flush();
  }
}

function goAll(all: readonly (() => void)[]): void {
  for (const go of all) go();
}
