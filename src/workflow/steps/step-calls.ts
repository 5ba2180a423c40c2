import { inShort } from "../../core/errors/in-short.js";
import { checkStorable } from "../../core/values/storable-text.js";
import { capturedSite, siteOf } from "../define/call-site.js";
import { checkedAtCall, type WrongOptions } from "../define/check-steps.js";
import type { StepDefinition } from "../define/definition.js";
import { describe } from "../journal/describe.js";
import type { Draft } from "../journal/draft.js";
import type { Request } from "../journal/event.js";
import { argumentsIn, inputDifference } from "../journal/input-difference.js";
import type { Divergence } from "../replay/divergence.js";
import { journaledName } from "../replay/journaled-name.js";
import { pendingForever } from "../replay/requests.js";
import type { ServingRun } from "../replay/serving-run.js";
import { linkAborts, withoutAborts } from "./abort-links.js";
import type { AttemptLog } from "./attempt-log.js";
import { mayBeForgotten } from "./forgotten-calls.js";
import { RefusedCall } from "./refused-call.js";
import type { LateBody } from "./step-body.js";
import { type CallingRun, StepCall } from "./step-call.js";
import { checkedKey, inputAsAsked, inputOf, isSameInput, type StepInput } from "./step-input.js";
import type { WatchedCall } from "./watched-call.js";

/** The run whose code calls steps. */
interface CallsRun extends CallingRun, ServingRun {
  readonly arrivals: CallingRun["arrivals"] & ServingRun["arrivals"];
  readonly draft: Pick<Draft, "startAfterCommit" | "withholdStarts">;
  /** The code has no future here: the run is over, or has left this process. */
  readonly isClosed: boolean;
  /** The time that the journal will have for an event that was just recorded. */
  readonly writer: CallingRun["writer"] & { timeOf(event: Request): number };
  /** Calls that a person has accepted as the ones that the code asks for. */
  readonly acceptances: { has(call: string): boolean };
  diverge(divergence: Divergence): void;
}

/** The steps that the code of a run has called. */
export class StepCalls {
  readonly #run: CallsRun;
  readonly #calls = new Map<string, StepCall>();
  /** Those whose end the code has not got: a run of a thousand steps looks at one of them, not at all. */
  readonly #open = new Set<StepCall>();
  /** Those whose promise the code has not looked at. */
  readonly #unobserved = new Set<WatchedCall>();

  constructor(run: CallsRun) {
    this.#run = run;
  }

  call(called: StepDefinition, args: readonly unknown[]): Promise<unknown> {
    const run = this.#run;
    const { definition: readable, wrong } = checkedAtCall(called);
    if (readable === undefined) return this.#refuseUnnamed(wrong);
    const named = this.#nameOf(readable, args);
    if (named === undefined) return pendingForever();
    const { id, definition } = named;
    const existing = this.#calls.get(id);
    if (existing) return this.#callAgain(existing, args);
    const given = inputOf(args, linkAborts(run, id, args));
    const asked = run.requests.ask(id, () => {
      // Its `key` is in it. Not of a call that is journaled: a store of an earlier version may have taken it.
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
    if (!known) call.begin(run.writer.timeOf(event));
    else if (asAsked === undefined && !run.acceptances.has(id)) {
      this.#diverge(call, event);
      return pendingForever();
    }
    return call.promise;
  }

  /** Its `key` is not a function. Nothing is journaled: with the right one the call has another name. */
  #refuseUnnamed(wrong: WrongOptions | undefined): Promise<never> {
    if (wrong !== undefined) this.#run.parking.refuseStep(wrong.message);
    return pendingForever();
  }

  #diverge({ id, stepId, definition, given }: StepCall, event: Request): void {
    const asked = given.input();
    const journaled = event.type === "step" ? argumentsIn(event.fingerprint) : undefined;
    const difference = journaled ? inputDifference(journaled, asked) : `the arguments are now ${inShort(asked, 200)}`;
    this.#run.diverge({
      expected: `${describe(event)} with the arguments it had`,
      found: "the same call with other arguments",
      where: siteOf(capturedSite(definition.call)),
      input: { id, stepId, asked },
      ...(difference ? { difference } : {}),
    });
  }

  /** One key is one call. Asked for with other arguments, the first result would be an answer to another question. */
  #callAgain(existing: StepCall, args: readonly unknown[]): Promise<unknown> {
    const { requests } = this.#run;
    const { definition, id } = existing;
    const given = inputOf(withoutAborts(args));
    if (isSameInput(existing.given, given)) return existing.promise;
    if (this.#run.isClosed) return pendingForever();
    const mark = requests.ordinal(`mismatch ${id}`);
    // Version 0.1.0 gave the code the first result, and its journal goes on from there.
    if (!requests.note(mark, () => ({ type: "mismatch", id: mark, at: this.#run.now(), fingerprint: given.print })))
      return existing.promise;
    const refused = new RefusedCall(definition, id);
    this.#watch(refused);
    return refused.promise;
  }

  /** Calls of a function are counted over all its names: after a journaled "old#0" comes "new#1". */
  #nameOf(definition: StepDefinition, args: readonly unknown[]): { readonly id: string; readonly definition: StepDefinition } | undefined {
    const { requests } = this.#run;
    const { name } = definition;
    const { key } = definition.options();
    const suffix =
      key === undefined ? `#${requests.count(name)}` : `:${checkedKey(name, (key as (...args: readonly unknown[]) => unknown)(...args))}`;
    const has = (each: string) => requests.has(each + suffix) || this.#calls.has(each + suffix);
    const journaled = journaledName({ kind: "step", renamed: definition, has });
    if (typeof journaled !== "string") {
      this.#run.diverge(journaled);
      return undefined;
    }
    return { id: journaled + suffix, definition: journaled === name ? definition : { ...definition, name: journaled } };
  }

  #add(call: StepCall): void {
    this.#calls.set(call.id, call);
    this.#open.add(call);
    this.#run.answers.on(call.id, (event) => {
      this.#open.delete(call);
      call.settle(event);
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

  /** Those whose promise the code has not looked at, in the order of the calls. Follows from the code alone: the same at every replay. */
  get unobserved(): readonly WatchedCall[] {
    return [...this.#unobserved];
  }

  get open(): ReadonlySet<StepCall> {
    return this.#open;
  }

  /** One of them is under way in this process. */
  get busy(): boolean {
    for (const call of this.#open) if (call.busy) return true;
    return false;
  }

  called(id: string): StepCall | undefined {
    return this.#calls.get(id);
  }

  by(stepId: string): StepCall | undefined {
    for (const call of this.#calls.values()) if (call.stepId === stepId) return call;
    return undefined;
  }

  /** After a replay: `attempts` is what the journal says of each. */
  resume(attempts: ReadonlyMap<string, AttemptLog>): void {
    for (const call of this.#open) call.resume(attempts.get(call.id) ?? []);
  }

  abort(reason: unknown): void {
    for (const call of this.#open) call.abort(reason);
  }

  /** The run is handed back: what has not begun is the next owner's to begin. */
  withhold(): void {
    const withheld = this.#run.draft.withholdStarts();
    for (const call of this.#open) if (withheld.has(call.id)) call.withhold();
  }

  /**
   * The run ends but for `awaited`: what has not begun will not begin, also when the entry that would begin it is on its
   * way. Returns what runs.
   */
  withdraw(awaited: ReadonlySet<StepCall>): StepCall[] {
    // Those that are awaited may be among the starts, so those stay; the others are journaled as left behind.
    const unwritten = awaited.size > 0 ? new Set() : this.#run.draft.withholdStarts();
    const running: StepCall[] = [];
    for (const call of this.#open) {
      if (awaited.has(call)) continue;
      call.dueAt = undefined;
      if (call.state === "running") running.push(call);
      else call.withdraw(!unwritten.has(call.id));
    }
    return running;
  }

  /** After a replay in which the code has come to its end: the run waits for `awaited`, and ends without the others. */
  resumeEnded(attempts: ReadonlyMap<string, AttemptLog>, awaited: ReadonlySet<StepCall>): void {
    for (const call of this.#open) {
      const log = attempts.get(call.id) ?? [];
      if (awaited.has(call)) call.resume(log);
      else call.resumeEnded(log);
    }
  }

  /** How many of them are in doubt. */
  get unknown(): number {
    return [...this.#open].filter(({ state }) => state === "unknown").length;
  }

  /** Bodies that the run leaves behind. */
  get lateBodies(): LateBody[] {
    return [...this.#open].flatMap(({ lateBody }) => lateBody ?? []);
  }
}

/** `attempt` 0: the code asks for it, and no attempt begins. */
function requestOf(id: string, at: number, { print, partial }: StepInput, attempt: 0 | 1): Request {
  return { type: "step", id, at, attempt, fingerprint: print, partial };
}
