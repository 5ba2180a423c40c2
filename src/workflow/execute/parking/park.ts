import type { Then } from "../../../core/runs/operation.js";
import type { Mail } from "../../../core/runs/run.js";
import { decideWithoutCode, nextLookAt } from "../../journal/ends/end-without-code.js";
import type { Draft } from "../../journal/writer/draft.js";
import type { AttemptLog } from "../../steps/attempt-log.js";
import type { StepCall } from "../../steps/call/step-call.js";
import { cancelledWithoutCode } from "../../steps/cancel-without-code.js";
import type { ExecutionState } from "../state.js";
import { releaseToOthers } from "./avoidance.js";
import { warnParked } from "./warn-parked.js";

/** The run that cannot continue here. */
export type ParkedRun = StoppedRun & CodelessRun & CancelledRun & SetAsideRun;

interface StoppedRun {
  readonly gone: boolean;
  readonly state: ExecutionState;
  readonly draft: Pick<Draft, "discard">;
  readonly arrivals: { discard(): void };
  now(): number;
  /** Stops the run here before its replay is complete. */
  stopReplay(): void;
}

/** What decides whether the run ends without its code. */
interface CodelessRun {
  /** A step has begun, or a child was started. */
  readonly hasBegun: boolean;
  readonly stopping: { readonly isStopping: boolean };
  readonly mailbox: { readonly unreadCancels: readonly Mail[] };
  readonly deadlineAt: number | null;
  /** When the run can be ended without its code, as it was when this worker claimed the run. */
  readonly stopAt: number | null;
}

interface CancelledRun extends Pick<CodelessRun, "hasBegun" | "stopping"> {
  /** Journaled attempts of each step call. */
  readonly attempts: ReadonlyMap<string, AttemptLog>;
  readonly calls: { called(id: string): Pick<StepCall, "definition"> | undefined };
  readonly children: { cancelJournaled(payload: string | null): void };
  readonly draft: Pick<Draft, "record">;
  commit(then: Then): void;
}

interface SetAsideRun extends Pick<CodelessRun, "deadlineAt" | "stopAt"> {
  readonly id: string;
  /** Workers that could not execute the run before. */
  readonly avoid: readonly string[];
  readonly host: { readonly owner: string };
  readonly draft: Pick<Draft, "stopAt">;
  readonly mailbox: { park(): void };
  commit(then: Then): void;
}

/** Why the run cannot continue here, and the status that it gets. */
interface Obstacle {
  readonly trouble: string;
  readonly status: "diverged" | "parked";
}

/** Discards recorded events that were not committed, and sets the run aside; a run that is being cancelled may end instead. */
export function park(run: ParkedRun, trouble: string, status: Obstacle["status"] = "diverged"): void {
  if (run.gone || run.state === "returning") return;
  run.draft.discard();
  run.arrivals.discard();
  run.stopReplay();
  const now = run.now();
  const { hasBegun, stopping, deadlineAt, stopAt, mailbox } = run;
  const cancels = mailbox.unreadCancels;
  const decision = decideWithoutCode({ hasBegun, isStopping: stopping.isStopping, cancels, deadlineAt, stopAt }, now);
  if (decision.ends) endCancelled(run, { trouble, cancels, now });
  else setAside(run, { trouble, status }, decision.stopAt, now);
}

interface EndReason {
  readonly trouble: string;
  readonly cancels: readonly Mail[];
  readonly now: number;
}

function endCancelled(run: CancelledRun, { trouble, cancels, now }: EndReason): void {
  const { attempts, hasBegun, stopping, draft } = run;
  const definitionOf = (id: string) => run.calls.called(id)?.definition;
  const isTerminated = cancels.some(({ payload }) => payload === null);
  const why = isTerminated || !hasBegun ? undefined : `no cleanup ran: ${trouble}`;
  const isCutOff = stopping.isStopping && !isTerminated;
  const { events, then } = cancelledWithoutCode({ attempts, now, definitionOf, isCutOff, trouble: why });
  run.children.cancelJournaled(null);
  for (const event of events) draft.record(event);
  run.commit(then);
}

/** The run waits for code that can execute it. `cleanUpBy`: it is being cancelled, and waits until then for code that can clean up. */
function setAside(run: SetAsideRun, { trouble, status }: Obstacle, cleanUpBy: number | undefined, now: number): void {
  const { id, avoid, host, draft, mailbox, deadlineAt, stopAt } = run;
  if (cleanUpBy !== undefined) draft.stopAt(cleanUpBy);
  mailbox.park();
  warnParked(host, { id, status, trouble });
  const wakeAt = cleanUpBy ?? nextLookAt({ deadlineAt, stopAt }, now);
  if (status === "parked") return run.commit({ kind: "release", wakeAt, status, trouble });
  run.commit(releaseToOthers({ avoid, owner: host.owner, now, trouble }));
}
