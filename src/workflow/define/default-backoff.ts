import type { ResolvedStepOptions } from "./step-options.js";

type StepBackoff = NonNullable<ResolvedStepOptions["backoff"]>;

/** Retries after about 1, 15 and 120 s: the default of 3 retries outlives an outage of two minutes. */
const standard: StepBackoff = { minMs: 1000, maxMs: 120_000, factor: 15, jitter: 0.2 };
/** For tests in real time. */
const atOnce: StepBackoff = { minMs: 1, maxMs: 1, factor: 1, jitter: 0 };

let tests = 0;

/** The backoff of steps that set none. */
export function defaultBackoff(): StepBackoff {
  return tests > 0 ? atOnce : standard;
}

/** For test kits whose time is real: steps that set no backoff are retried at once. Returns a function that ends this. */
export function retryAtOnce(): () => void {
  tests += 1;
  let isOver = false;
  return () => {
    if (!isOver) tests -= 1;
    isOver = true;
  };
}
