import { checkStorable } from "../../core/values/storable-text.js";
import { capturedSite } from "../define/call-site.js";
import { checkedAtCall, type WrongOptions } from "../define/check-steps.js";
import type { StepDefinition } from "../define/definition.js";
import type { Request } from "../journal/event.js";
import type { Resolution } from "../journal/mail/resolution.js";
import type { DeliveryRecord, Draft } from "../journal/writer/draft.js";
import { pendingForever } from "../replay/requests.js";
import type { ServingRun } from "../replay/serving-run.js";
import { linkAborts, withoutAborts } from "./abort-links.js";
import type { AttemptLog } from "./attempt-log.js";
import { beginCall } from "./call/attempt.js";
import { cancelCall, stopCall } from "./call/cancel.js";
import { callDue, type DueRun } from "./call/due.js";
import { startWithheld, withdrawCall, withholdCall } from "./call/leave.js";
import { type ResolvingRun, resolveCall } from "./call/resolve.js";
import { type ResumingRun, resumeCall, resumeEndedCall } from "./call/resume.js";
import { StepCall } from "./call/step-call.js";
import { settleCall } from "./call/verdict.js";
import { type DivergingRun, inputDivergence, nameOf } from "./call-identity.js";
import { mayBeForgotten } from "./forgotten-calls.js";
import { RefusedCall } from "./refused-call.js";
import type { LateBody } from "./step-body.js";
import { inputAsAsked, inputOf, isSameInput, type StepInput } from "./step-input.js";
import type { WatchedCall } from "./watched-call.js";

/** The run whose code calls steps: what the stages of a call need, and what a new call needs. */
type CallsRun = DueRun & ResumingRun & ResolvingRun & ServingRun & DivergingRun & NewCallsRun;

interface NewCallsRun {
  readonly draft: Pick<Draft, "withholdStarts" | "unwriteAttempts">;
  /** The code must not continue: the run has ended, or has left this process. */
  readonly isClosed: boolean;
  /** `timeOf`: the time that an event which was just recorded will have in the journal. */
  readonly writer: { timeOf(event: Request): number };
  /** Journaled calls that an operator has accepted, whatever their arguments are. */
  readonly acceptances: { has(call: string): boolean };
}

type Call = StepCall<CallsRun>;

/** The steps that the code of a run has called. */
export class StepCalls {
  readonly #run: CallsRun;
  readonly #calls = new Map<string, Call>();
  /** Calls whose outcome the code has not received. A separate set, so that a run with a thousand steps need not scan all. */
  readonly #open = new Set<Call>();
  /** Calls whose promise the code has not observed. */
  readonly #unobserved = new Set<WatchedCall>();

  constructor(run: CallsRun) {
    this.#run = run;
  }

  call(called: StepDefinition, args: readonly unknown[]): Promise<unknown> {
    const run = this.#run;
    const { definition: readable, wrong } = checkedAtCall(called);
    if (readable === undefined) return this.#refuseUnnamed(wrong);
    const named = nameOf(run, readable, args, this.#calls);
    if (named === undefined) return pendingForever();
    const { id, definition } = named;
    const existing = this.#calls.get(id);
    if (existing) return this.#callAgain(existing, args);
    const given = inputOf(args, linkAborts(run, id, args));
    const asked = run.requests.ask(id, () => {
      // The id contains the `key`. Not checked for a journaled call: an earlier version of the store may have accepted it.
      checkStorable(`step "${definition.name}": key`, id);
      definition.checkCall?.();
      return requestOf(id, run.now(), given, wrong === undefined ? 1 : 0);
    });
    if (asked === undefined) return pendingForever();
    const { event, known } = asked;
    const asAsked = event.type === "step" ? inputAsAsked(event, given) : undefined;
    const call = new StepCall(run, definition, id, asAsked ?? given, wrong);
    this.#add(call);
    this.#watch(call);
    if (!known) beginCall(call, run.writer.timeOf(event));
    else if (asAsked === undefined && !run.acceptances.has(id)) {
      run.diverge(inputDivergence(call, event));
      return pendingForever();
    }
    return call.promise;
  }

  /** The option `key` is not a function. Nothing is journaled, because with a correct key the call has another name. */
  #refuseUnnamed(wrong: WrongOptions | undefined): Promise<never> {
    if (wrong !== undefined) this.#run.parking.refuseStep(wrong.message);
    return pendingForever();
  }

  /** A second call with the same key: the same call if the arguments are the same, otherwise an error. */
  #callAgain(existing: Call, args: readonly unknown[]): Promise<unknown> {
    const { requests } = this.#run;
    const { definition, id } = existing;
    const given = inputOf(withoutAborts(args));
    if (isSameInput(existing.given, given)) return existing.promise;
    if (this.#run.isClosed) return pendingForever();
    const mark = requests.ordinal(`mismatch ${id}`);
    // Version 0.1.0 returned the first result in this case, and its journals continue from there.
    if (!requests.note(mark, () => ({ type: "mismatch", id: mark, at: this.#run.now(), fingerprint: given.print })))
      return existing.promise;
    const refused = new RefusedCall(definition, id);
    this.#watch(refused);
    return refused.promise;
  }

  #add(call: Call): void {
    this.#calls.set(call.id, call);
    this.#open.add(call);
    this.#run.answers.on(call.id, (event) => {
      // The outcome of a cancelled call may still be unknown, or its body may still run.
      if (event.type !== "cancelled") this.#open.delete(call);
      settleCall(call, event);
    });
  }

  #watch(call: WatchedCall): void {
    if (mayBeForgotten(this.#run.workflow, call.definition.name)) call.site = capturedSite(call.definition.call);
    this.#unobserved.add(call);
    call.promise.onObserved = () => {
      this.#unobserved.delete(call);
      call.site = undefined;
    };
  }

  /** Calls whose promise the code has not observed, in call order. Depends only on the code, so it is the same at every replay. */
  get unobserved(): readonly WatchedCall[] {
    return [...this.#unobserved];
  }

  get open(): ReadonlySet<Call> {
    return this.#open;
  }

  /** A call is in progress in this process. */
  get busy(): boolean {
    for (const call of this.#open) if (call.busy) return true;
    return false;
  }

  called(id: string): Call | undefined {
    return this.#calls.get(id);
  }

  /** An operator has resolved an attempt. Returns the deliveries for the code. */
  resolve(stepId: string, attempt: number, to: Resolution): readonly DeliveryRecord[] {
    for (const call of this.#calls.values()) if (call.stepId === stepId) return resolveCall(call, attempt, to);
    return [];
  }

  /** Starts attempts, and calls of `reconcile`, that are due. */
  fire(now: number): void {
    for (const call of this.#open) if (call.dueAt !== undefined && call.dueAt <= now) callDue(call);
  }

  /** Continues open calls after a replay. `attempts`: the journaled attempts of each call. */
  resume(attempts: ReadonlyMap<string, AttemptLog>): void {
    for (const call of this.#open) resumeCall(call, attempts.get(call.id) ?? noLog);
  }

  /** A body of the run has started, in this process or in another one. */
  get hasBegun(): boolean {
    for (const call of this.#calls.values()) if (call.hasBegun || (call.state === "settled" && !call.isCancelled)) return true;
    return false;
  }

  /** The run is being cancelled: calls that are open now are not retried. */
  stop(reason: string | undefined): void {
    for (const call of this.#open) stopCall(call, reason);
  }

  /** The run is being cancelled: aborts bodies, and returns the deliveries for calls that no attempt is in progress for. */
  cancel(reason: string | undefined): DeliveryRecord[] {
    const unwritten = this.#run.draft.unwriteAttempts();
    return [...this.#open].flatMap((call) => cancelCall(call, reason, unwritten.has(call.id)) ?? []);
  }

  /** The run is resumed after a pause. */
  startWithheld(): void {
    for (const call of this.#open) startWithheld(call);
  }

  abort(reason: unknown): void {
    for (const call of this.#open) call.abort(reason);
  }

  /** The run is being released or paused: attempts that have not started are left to the next owner, or start after the pause. */
  withhold(): void {
    const withheld = this.#run.draft.unwriteAttempts();
    for (const call of this.#open) if (withheld.has(call.id) && call.state === "starting") withholdCall(call);
  }

  /**
   * The run ends except for the `awaited` calls: attempts that have not started will not start, even if the entry that would
   * start them is in flight. Returns the calls whose bodies run.
   */
  withdraw(awaited: ReadonlySet<StepCall>): Call[] {
    // If there are awaited calls, pending starts are kept, because they may belong to them; the others are journaled as abandoned.
    const unwritten = awaited.size > 0 ? new Set() : this.#run.draft.withholdStarts();
    const running: Call[] = [];
    for (const call of this.#open) {
      if (awaited.has(call)) continue;
      call.dueAt = undefined;
      if (call.state === "running") running.push(call);
      else withdrawCall(call, !unwritten.has(call.id));
    }
    return running;
  }

  /** After a replay in which the code has ended: the run waits for the `awaited` calls and ends without the others. */
  resumeEnded(attempts: ReadonlyMap<string, AttemptLog>, awaited: ReadonlySet<StepCall>): void {
    for (const call of this.#open) {
      const log = attempts.get(call.id) ?? noLog;
      if (awaited.has(call)) resumeCall(call, log);
      else resumeEndedCall(call, log);
    }
  }

  /** Number of calls whose outcome is unknown. */
  get unknown(): number {
    let count = 0;
    for (const { state } of this.#open) if (state === "unknown") count += 1;
    return count;
  }

  /** Bodies that still run when the run ends. */
  get lateBodies(): LateBody[] {
    return [...this.#open].flatMap(({ lateBody }) => lateBody ?? []);
  }
}

const noLog: AttemptLog = [];

/** `attempt` 0: the request is journaled, but no attempt starts. */
function requestOf(id: string, at: number, { print, partial }: StepInput, attempt: 0 | 1): Request {
  return { type: "step", id, at, attempt, fingerprint: print, partial };
}
