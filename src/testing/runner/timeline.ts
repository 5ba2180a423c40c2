import type { RunSituation } from "./run-situation.js";

/** How time passes for a runner: as it is told to, or as it does. */
export interface Timeline {
  readonly now: Date;
  /** What to do about a run that waits for something else. */
  readonly advice: string;
  advance(by: number | string): Promise<void>;
  /** Until nothing happens by itself; fails when a body does not end. */
  settle(): Promise<void>;
  /** The same, and a body that does not end is left alone. */
  rest(): Promise<void>;
  /** What the run waits for when it is so, or when it will not become so by itself; undefined when there is no such run. */
  until(run: string, met: (situation: RunSituation) => boolean): Promise<RunSituation | undefined>;
  /** A run to take care of. */
  follow(run: string): void;
  close(): void;
}
