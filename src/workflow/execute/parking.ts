import type { Then } from "../../core/runs/operation.js";
import type { Mail } from "../../core/runs/run.js";
import { DivergenceError } from "../define/errors.js";
import { inputDifference } from "../journal/arguments/input-difference.js";
import { decideWithoutCode, nextLookAt } from "../journal/ends/end-without-code.js";
import type { Draft } from "../journal/writer/draft.js";
import type { Divergence } from "../replay/divergence.js";
import type { AttemptLog } from "../steps/attempt-log.js";
import type { StepCall } from "../steps/call/step-call.js";
import { cancelledWithoutCode } from "../steps/cancel-without-code.js";
import { releaseToOthers } from "./avoidance.js";
import type { Host } from "./host.js";
import type { ExecutionState } from "./state.js";
import { warnParked } from "./warn-parked.js";

/** The run that cannot continue here. */
interface ParkedRun {
  readonly id: string;
  readonly workflow: { readonly where: string };
  /** Workers that could not execute the run before. */
  readonly avoid: readonly string[];
  readonly host: Pick<Host, "owner" | "rehearsal" | "warnOfDivergence">;
  readonly state: ExecutionState;
  readonly gone: boolean;
  readonly draft: Pick<Draft, "record" | "discard" | "unready" | "stopAt">;
  readonly writer: { readonly busy: boolean; readonly isUnbegun: boolean };
  readonly calls: { abort(reason: unknown): void; called(id: string): Pick<StepCall, "given" | "definition"> | undefined };
  readonly arrivals: { discard(): void };
  readonly mailbox: { readonly unreadCancels: readonly Mail[]; readonly hasUnreadWake: boolean; park(): void };
  readonly stopping: { readonly isStopping: boolean };
  readonly children: { cancelJournaled(payload: string | null): void };
  readonly deadlineAt: number | null;
  /** When the run can be ended without its code, as it was when this worker claimed the run. */
  readonly stopAt: number | null;
  /** A step has begun, or a child was started. */
  readonly hasBegun: boolean;
  /** Journaled attempts of each step call. */
  readonly attempts: ReadonlyMap<string, AttemptLog>;
  now(): number;
  touch(): void;
  commit(then: Then): void;
  lose(reason: unknown): void;
  /** Stops the run here before its replay is complete. */
  stopReplay(): void;
}

/**
 * Sets a run aside that cannot continue here, with one of two statuses. "diverged": other workers can claim it immediately;
 * this worker, and those that tried it before, after a while. "parked": its processes crashed too often, and no worker claims
 * it until an operator acts. Recorded events that were not committed are discarded.
 */
export class Parking {
  readonly #run: ParkedRun;
  #refusedStep: string | undefined;

  constructor(run: ParkedRun) {
    this.#run = run;
  }

  /** The code makes other requests than the journal has. */
  parkDiverged(divergence: Divergence): void {
    const { id, workflow, host } = this.#run;
    const located = { where: workflow.where, ...divergence };
    if (host.rehearsal) return host.rehearsal.diverge(located);
    this.#park(new DivergenceError(id, located).message);
  }

  /** The replay check found that the code would diverge at its next replay. Recorded events have happened, and are kept. */
  parkForeseen(divergence: Divergence): void {
    const { id, gone, state, writer, draft, avoid, host, calls } = this.#run;
    // Otherwise the run is already leaving, or an entry is being written.
    if (gone || state !== "live" || writer.busy) return;
    const { input } = divergence;
    const was = input && calls.called(input.id)?.given.input();
    const difference = input && was ? inputDifference(was, input.asked) : undefined;
    const facts = { ...divergence, ...(difference ? { difference } : {}), foreseen: true, unbegun: writer.isUnbegun };
    const { message: trouble } = new DivergenceError(id, facts);
    // Nothing has happened yet: under corrected code the run starts from the beginning.
    if (writer.isUnbegun) draft.discard();
    this.#run.commit(releaseToOthers({ avoid, owner: host.owner, now: this.#run.now(), trouble }));
    host.warnOfDivergence(id, trouble);
  }

  /**
   * The next delivery cannot be decoded in this process. In a live run the delivery is mail that is not consumed yet. Running
   * bodies are aborted; the next owner sees in the journal that they started.
   */
  parkUnreadable(why: string): void {
    const { id, state, writer, calls, draft, host } = this.#run;
    if (writer.busy) return;
    if (host.rehearsal) return host.rehearsal.match();
    if (state === "live") {
      process.emitWarning(`this worker releases run "${id}": ${why}`, { type: "OnceflowWarning", code: "ONCEFLOW_RUN_UNREADABLE" });
      // A value that is still being read cannot be removed from the entry: give up the run, and the next renewal releases it.
      if (draft.unready !== undefined) return this.#run.lose(new Error(why));
      calls.abort(new Error(why));
    }
    this.#park(`${why}. The run is set aside (status "diverged") and continues in a process that can read it.`);
  }

  /** Why a step that the code has called cannot start under this code. The run is released when nothing is in progress. */
  get refusedStep(): string | undefined {
    return this.#refusedStep;
  }

  /** The options of a step are invalid. The run must not fail because of that: it waits for corrected code. */
  refuseStep(why: string): void {
    const { id, host } = this.#run;
    if (host.rehearsal) return;
    this.#refusedStep ??= `run "${id}" cannot continue under this code: ${why}. The step was not started. Correct its options: the run is set aside (status "diverged") and continues under the corrected code.`;
    this.#run.touch();
  }

  /** Releases the run because of a step with invalid options. Recorded events have happened, and are kept. */
  releaseRefused(trouble: string): void {
    const { avoid, host, id } = this.#run;
    warnParked(host, { id, status: "diverged", trouble });
    this.#run.commit(releaseToOthers({ avoid, owner: host.owner, now: this.#run.now(), trouble }));
  }

  /** The run's processes crashed too often in one step, while they executed no other run. False if an operator has requested another try. */
  parkCrashed(why: string): boolean {
    if (this.#run.mailbox.hasUnreadWake) return false;
    this.#park(why, "parked");
    return true;
  }

  #park(trouble: string, status: "diverged" | "parked" = "diverged"): void {
    const { gone, state, draft, arrivals, mailbox, attempts, calls } = this.#run;
    if (gone || state === "returning") return;
    draft.discard();
    arrivals.discard();
    this.#run.stopReplay();
    const now = this.#run.now();
    const { hasBegun, stopping, deadlineAt, stopAt, children } = this.#run;
    const { isStopping } = stopping;
    const cancels = mailbox.unreadCancels;
    const decision = decideWithoutCode({ hasBegun, isStopping, cancels, deadlineAt, stopAt }, now);
    if (decision.ends) {
      const definitionOf = (id: string) => calls.called(id)?.definition;
      const isTerminated = cancels.some(({ payload }) => payload === null);
      const why = isTerminated || !hasBegun ? undefined : `no cleanup ran: ${trouble}`;
      const { events, then } = cancelledWithoutCode({ attempts, now, definitionOf, isCutOff: isStopping && !isTerminated, trouble: why });
      children.cancelJournaled(null);
      for (const event of events) draft.record(event);
      return this.#run.commit(then);
    }
    // It waits for code that can clean up.
    if (decision.stopAt !== undefined) draft.stopAt(decision.stopAt);
    mailbox.park();
    const { avoid, host, id } = this.#run;
    warnParked(host, { id, status, trouble });
    const wakeAt = decision.stopAt ?? nextLookAt({ deadlineAt, stopAt }, now);
    if (status === "parked") return this.#run.commit({ kind: "release", wakeAt, status, trouble });
    this.#run.commit(releaseToOthers({ avoid, owner: host.owner, now, trouble }));
  }
}
