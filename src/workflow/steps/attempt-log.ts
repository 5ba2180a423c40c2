import { type AttemptEvent, type Claim, lastAttemptEvent, type StepFailure } from "../journal/event.js";

/** What the journal says about the attempts of one call. */
export type AttemptLog = readonly (AttemptEvent | Claim)[];

/** What the next attempt of a call has to know of those before it. */
export interface PastAttempts {
  /** The last thing that happened to the call. */
  readonly last: AttemptEvent | undefined;
  /** The last attempt has begun, and has no verdict: its owner was at it when it fell silent. */
  readonly isOpen: boolean;
  /** The last attempt that has begun; 0 when none has. */
  readonly attempt: number;
  readonly startedAt: number;
  readonly firstStartedAt: number | undefined;
  readonly failures: number;
  /** The last thing that was thrown, encoded; "" when nothing was. */
  readonly failure: string;
  /** Owners that died in it while they executed its run alone. */
  readonly crashes: number;
}

export function pastAttempts(log: AttemptLog): PastAttempts {
  const begun = log.filter((event) => event.type === "step" && event.attempt > 0) as { readonly at: number; readonly attempt: number }[];
  const failed = log.filter((event): event is StepFailure => event.type === "fail");
  const last = lastAttemptEvent(log);
  return {
    last,
    isOpen: last?.type === "step" && last.attempt > 0,
    attempt: begun.at(-1)?.attempt ?? 0,
    startedAt: begun.at(-1)?.at ?? 0,
    firstStartedAt: begun[0]?.at,
    // A person who says that an attempt had no effect does not use up one of its retries.
    failures: failed.filter(({ how }) => how !== "resolved").length,
    failure: failed.at(-1)?.error ?? "",
    crashes: crashesIn(log),
  };
}

function crashesIn(log: AttemptLog): number {
  let crashes = 0;
  for (const event of log) if (event.type === "claim") crashes = event.crashes === 0 ? 0 : crashes + 1;
  return crashes;
}
