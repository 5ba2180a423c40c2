import type { Clock } from "../../../core/work/clock.js";
import type { Route } from "../flows/route.js";
import { Gather } from "./gather.js";

/** How long deliveries wait for each other. */
const waitMs = 200;

/**
 * Edges of mode `checkpoint` with an interval: finished deliveries wait until `checkpointEvery` of them are finished, or no
 * other delivery of the edge is running, and commit together. If the worker dies before that, they are delivered again.
 */
export class Checkpoints {
  readonly #clock: Clock;
  readonly #turns = new Map<Route, Gather<() => void>>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Resolves when the delivery may commit. Undefined: at once. */
  waitForTurn(route: Route): Promise<void> | undefined {
    const { mode, checkpointEvery } = route.delivery;
    if (mode !== "checkpoint" || checkpointEvery <= 1) return undefined;
    const turn = this.#turns.get(route) ?? new Gather(this.#clock, checkpointEvery, waitMs, commitAll);
    this.#turns.set(route, turn);
    return new Promise((commit) => {
      turn.add(commit);
      this.flushIfLast(route);
    });
  }

  /** Called when a delivery of the edge has ended: the waiting ones commit if no other one is running. */
  flushIfLast(route: Route): void {
    if (this.#turns.size === 0) return;
    const turn = this.#turns.get(route);
    if (turn !== undefined && turn.waiting >= route.load.taken) turn.flush();
  }

  flush(): void {
    for (const turn of this.#turns.values()) turn.flush();
  }
}

function commitAll(commits: readonly (() => void)[]): void {
  for (const commit of commits) commit();
}
