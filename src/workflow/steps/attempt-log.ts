import { decodeError } from "../../core/values/stored-error.js";
import { type AttemptEvent, type Claim, lastAttemptEvent, type Retry, type StepFailure } from "../journal/event.js";

/** The journaled events of one step call. */
export type AttemptLog = readonly (AttemptEvent | Claim | Retry)[];

/** Summary of the earlier attempts of a call, for its next attempt. */
export interface PastAttempts {
  /** The last event of the call. */
  readonly last: AttemptEvent | undefined;
  /** The last attempt has started and has no verdict: its owner died or lost the run during the attempt. */
  readonly isOpen: boolean;
  /** Number of the last attempt that has started; 0 if none has. */
  readonly attempt: number;
  readonly startedAt: number;
  readonly firstStartedAt: number | undefined;
  readonly failures: number;
  /** The last error, encoded; "" if there is none. */
  readonly failure: string;
  /** An attempt has begun, and nothing says that its effect did not happen. */
  readonly mayHaveHappened: boolean;
  /** Number of owners that died in this call while they executed the run alone. */
  readonly crashes: number;
}

export function pastAttempts(log: AttemptLog): PastAttempts {
  if (log.length === 0) return noAttempts;
  const begun = log.filter((event) => event.type === "step" && event.attempt > 0) as { readonly at: number; readonly attempt: number }[];
  const sinceRetry = log.slice(log.findLastIndex(({ type }) => type === "retry") + 1);
  const failed = log.filter((event): event is StepFailure => event.type === "fail");
  const last = lastAttemptEvent(log);
  return {
    last,
    isOpen: last?.type === "step" && last.attempt > 0,
    attempt: begun.at(-1)?.attempt ?? 0,
    startedAt: begun.at(-1)?.at ?? 0,
    firstStartedAt: begun[0]?.at,
    // If an operator resolves an attempt as "not applied", it does not count as a retry.
    failures: sinceRetry.filter((event) => event.type === "fail" && event.how !== "resolved").length,
    failure: failed.at(-1)?.error ?? "",
    mayHaveHappened: begun.some(({ attempt }) => !isNotApplied(failed.find((failure) => failure.attempt === attempt))),
    crashes: crashesIn(sinceRetry),
  };
}

/** A call that the code has just made. */
const noAttempts: PastAttempts = {
  last: undefined,
  isOpen: false,
  attempt: 0,
  startedAt: 0,
  firstStartedAt: undefined,
  failures: 0,
  failure: "",
  mayHaveHappened: false,
  crashes: 0,
};

function isNotApplied(failure: StepFailure | undefined): boolean {
  return failure !== undefined && decodeError(failure.error).name === "NotApplied";
}

function crashesIn(log: AttemptLog): number {
  let crashes = 0;
  for (const event of log) if (event.type === "claim") crashes = event.crashes === 0 ? 0 : crashes + 1;
  return crashes;
}
