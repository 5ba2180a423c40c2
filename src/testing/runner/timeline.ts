import type { RunSituation } from "./run-situation.js";

/** How time passes for a runner: virtual or real. */
export interface Timeline {
  readonly now: Date;
  /** Advice for the message of an assertion about a run that waits for something else. */
  readonly advice: string;
  advance(by: number | string): Promise<void>;
  /** Waits until no run continues by itself; fails when a body does not end. */
  settle(): Promise<void>;
  /** As `settle`, but stops waiting for a body that does not end. */
  rest(): Promise<void>;
  /** Waits until `met`, or until the run cannot meet it by itself, and returns what the run waits for; undefined when there is no such run. */
  until(run: string, met: (situation: RunSituation) => boolean): Promise<RunSituation | undefined>;
  /** Makes `settle` wait for this run, too. */
  follow(run: string): void;
  close(): void;
}
