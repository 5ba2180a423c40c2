import type { Then } from "../../core/runs/operation.js";
import { DivergenceError } from "../define/errors.js";
import type { Draft } from "../journal/draft.js";
import { inputDifference } from "../journal/input-difference.js";
import type { Divergence } from "../replay/divergence.js";
import type { AttemptLog } from "../steps/attempt-log.js";
import { cancelledWithoutCode } from "../steps/cancel-without-code.js";
import type { StepCall } from "../steps/step-call.js";
import { releaseToOthers } from "./avoidance.js";
import type { Host } from "./host.js";
import type { ExecutionState } from "./state.js";
import { warnParked } from "./warn-parked.js";

/** The run that cannot go on here. */
interface ParkedRun {
  readonly id: string;
  readonly workflow: { readonly where: string };
  /** Workers that could not execute it before. */
  readonly avoid: readonly string[];
  readonly host: Pick<Host, "owner" | "rehearsal" | "warnOfDivergence">;
  readonly state: ExecutionState;
  readonly gone: boolean;
  readonly draft: Pick<Draft, "record" | "discard" | "unready">;
  readonly writer: { readonly busy: boolean; readonly isUnbegun: boolean };
  readonly calls: { abort(reason: unknown): void; called(id: string): Pick<StepCall, "given" | "definition"> | undefined };
  readonly arrivals: { discard(): void };
  readonly mailbox: { readonly hasUnreadCancel: boolean; readonly hasUnreadWake: boolean; park(): void };
  /** What the journal says about each call. */
  readonly attempts: ReadonlyMap<string, AttemptLog>;
  now(): number;
  touch(): void;
  commit(then: Then): void;
  lose(reason: unknown): void;
  /** Nothing more is done here, although the replay was not over. */
  stopReplay(): void;
}

/**
 * A run that cannot go on here is set aside, with one of two statuses. "diverged": other workers are offered it at once, this one
 * and those before it after a while. "parked": its processes died too often, and no worker is offered it before a person acts. What
 * was recorded and not committed did not happen.
 */
export class Parking {
  readonly #run: ParkedRun;
  #refusedStep: string | undefined;

  constructor(run: ParkedRun) {
    this.#run = run;
  }

  /** The code is not the one that wrote the journal. */
  parkDiverged(divergence: Divergence): void {
    const { id, workflow, host } = this.#run;
    const located = { where: workflow.where, ...divergence };
    if (host.rehearsal) return host.rehearsal.diverge(located);
    this.#park(new DivergenceError(id, located).message);
  }

  /** The code would diverge at its next replay: the run is set aside now. What was recorded has happened, and is kept. */
  parkForeseen(divergence: Divergence): void {
    const { id, gone, state, writer, draft, avoid, host, calls } = this.#run;
    // Else it is on its way elsewhere.
    if (gone || state !== "live" || writer.busy) return;
    const { input } = divergence;
    const was = input && calls.called(input.id)?.given.input();
    const difference = input && was ? inputDifference(was, input.asked) : undefined;
    const facts = { ...divergence, ...(difference ? { difference } : {}), foreseen: true, unbegun: writer.isUnbegun };
    const { message: trouble } = new DivergenceError(id, facts);
    // Nothing has happened yet: under corrected code the run begins anew.
    if (writer.isUnbegun) draft.discard();
    this.#run.commit(releaseToOthers({ avoid, owner: host.owner, now: this.#run.now(), trouble }));
    host.warnOfDivergence(id, trouble);
  }

  /**
   * The code cannot be given its next delivery. While the run is live that is mail, which is not taken in yet. Bodies that
   * run are aborted, and the next owner sees that they began.
   */
  parkUnreadable(why: string): void {
    const { id, state, writer, calls, draft, host } = this.#run;
    if (writer.busy) return;
    if (host.rehearsal) return host.rehearsal.match();
    if (state === "live") {
      process.emitWarning(`run "${id}" is given back: ${why}`, { type: "OnceflowWarning", code: "ONCEFLOW_RUN_UNREADABLE" });
      // Half of a value that is being read cannot be taken out of the entry: the next renewal gives the run back.
      if (draft.unready !== undefined) return this.#run.lose(new Error(why));
      calls.abort(new Error(why));
    }
    this.#park(`${why}. The run is set aside (status "diverged") and goes on in a process that can read it.`);
  }

  /** Why a step that the code has called cannot begin under this code. The run goes back when nothing of it is under way. */
  get refusedStep(): string | undefined {
    return this.#refusedStep;
  }

  /** The options of a step are wrong. The run must not fail for that: it waits for code in which they are right. */
  refuseStep(why: string): void {
    const { id, host } = this.#run;
    if (host.rehearsal) return;
    this.#refusedStep ??= `run "${id}" cannot go on under this code: ${why}. The step was not begun. Correct its options: the run is set aside (status "diverged") and goes on under code in which they are right.`;
    this.#run.touch();
  }

  /** What was recorded has happened, and is kept. */
  releaseRefused(trouble: string): void {
    const { avoid, host, id } = this.#run;
    warnParked(host, { id, status: "diverged", trouble });
    this.#run.commit(releaseToOthers({ avoid, owner: host.owner, now: this.#run.now(), trouble }));
  }

  /** Its processes died too often in one of its steps, also when they executed no other run. False: a person asks for one more try. */
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
    if (mailbox.hasUnreadCancel) {
      // No code is needed for that.
      const definitionOf = (id: string) => calls.called(id)?.definition;
      const { events, then } = cancelledWithoutCode({ attempts, now, definitionOf });
      for (const event of events) draft.record(event);
      return this.#run.commit(then);
    }
    mailbox.park();
    const { avoid, host, id } = this.#run;
    warnParked(host, { id, status, trouble });
    if (status === "parked") return this.#run.commit({ kind: "release", wakeAt: null, status, trouble });
    this.#run.commit(releaseToOthers({ avoid, owner: host.owner, now, trouble }));
  }
}
