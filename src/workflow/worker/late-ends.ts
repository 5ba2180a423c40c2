import { isHeard } from "../../core/events/channels.js";
import { newOwner } from "../../core/ledger/owner.js";
import type { RunAnswer, RunOperation } from "../../core/runs/operation.js";
import type { Store } from "../../core/store/store.js";
import { sleep } from "../../core/work/clock.js";
import { afterEffect } from "../../core/work/until-answered.js";
import { messageOf } from "../define/message-of.js";
import { reportVerdict } from "../execute/step-events.js";
import { type EndedJournal, writeAfterEnd } from "../journal/ends/after-end.js";
import { type Event, isAttemptEvent } from "../journal/event.js";
import { type ResolutionMail, resolutionKey } from "../journal/mail/resolution.js";
import type { EndDeparture, Refusal } from "../journal/writer/departure.js";
import { warnNotWritten } from "../journal/writer/not-written.js";
import { lateVerdict } from "../steps/late-verdict.js";
import type { LateBody } from "../steps/step-body.js";

/** Maximum number of bodies that are followed at the same time. A body that never ends is followed as long as the process lives. */
const followedMax = 1000;

/** The worker that executed the run. */
interface LateHost {
  readonly store: Store;
  /** Time of the store. */
  now(): number;
  /** Retries until the store answers; undefined if the commit is not wanted any more. */
  commit(operation: RunOperation, wanted: () => boolean): Promise<RunAnswer | Refusal | undefined>;
}

interface LeavingRun {
  readonly id: string;
  readonly workflow: { readonly name: string };
  readonly creator: string;
  readonly calls: { readonly lateBodies: readonly LateBody[] };
  stepIdOf(call: string): string;
}

interface EndedRun {
  readonly id: string;
  readonly workflow: string;
  readonly creator: string;
  /** Number of the entry with the end of the run. */
  readonly seq: number;
  stepIdOf(call: string): string;
}

/** The verdict of a body that ended after its run. */
interface LateVerdict {
  readonly event: Event;
  readonly body: LateBody;
}

/**
 * Step bodies that still ran when their run ended. Their real outcome is recorded in an entry after the end. If the process dies
 * before that, a step whose outcome is unknown stays unknown, until an operator resolves it.
 */
export class LateEnds {
  readonly #host: LateHost;
  readonly #followed = new Set<LateBody>();
  readonly #writing = new Set<Promise<void>>();
  readonly #stopped = new AbortController();

  constructor(host: LateHost) {
    this.#host = host;
  }

  follow(left: LeavingRun, { unsettled, seq }: EndDeparture): void {
    const { id, workflow, creator, calls } = left;
    const run = { id, workflow: workflow.name, creator, seq, stepIdOf: (call: string) => left.stepIdOf(call) };
    // An operator may have resolved a step while the run was ending: the mail was accepted, and no other owner will read it.
    if (unsettled > 0) this.#write(run, () => undefined);
    for (const body of calls.lateBodies) this.#add(run, body);
  }

  #add(run: EndedRun, body: LateBody): void {
    this.#followed.add(body);
    const [oldest] = this.#followed;
    if (this.#followed.size > followedMax && oldest !== undefined) this.#forget(oldest);
    void body.outcome.then((outcome) => {
      if (!this.#followed.delete(body) || this.#stopped.signal.aborted) return;
      const event = lateVerdict(body, outcome, this.#host.now());
      this.#write(run, (journal) => (isOpen(body, run, journal) ? [event] : undefined), { event, body });
    });
  }

  #forget(body: LateBody): void {
    this.#followed.delete(body);
    process.emitWarning(
      `more than ${followedMax} step bodies still run although their runs have ended; the outcome of ${body.id} will not be recorded. ` +
        "Step bodies should stop when their signal aborts.",
      { type: "OnceflowWarning", code: "ONCEFLOW_LATE_BODIES" },
    );
  }

  #write(run: EndedRun, decide: (journal: EndedJournal) => readonly Event[] | undefined, verdict?: LateVerdict): void {
    const { store } = this.#host;
    const { id, creator } = run;
    const { signal } = this.#stopped;
    const write = async () => {
      const written = await writeAfterEnd(store, {
        id,
        creator,
        send: async (operation) => {
          const answer = await this.#host.commit(operation, () => !signal.aborted);
          if (answer?.kind !== "refused") return answer;
          warnNotWritten(id, `has ended, and the outcome of a step that ended later could not be recorded: ${messageOf(answer.error)}`);
          return undefined;
        },
        decide,
      });
      if (verdict === undefined) return;
      if (written === true) this.#report(run, verdict);
      if (typeof written === "object") await this.#sendToOwner(run, verdict.event, written.retries);
    };
    // The journal could not be read: the store is closed, or this process cannot decode it. The outcome stays unknown.
    const writing = afterEffect(store, write, { what: `the late end of a step of run "${id}"`, signal }).then(
      () => {},
      () => {},
    );
    this.#writing.add(writing);
    void writing.then(() => this.#writing.delete(writing));
  }

  #report(run: EndedRun, { event, body }: LateVerdict): void {
    if (!isHeard("step") || !isAttemptEvent(event) || event.type === "step") return;
    const about = { store: this.#host.store.name, run: run.id, workflow: run.workflow };
    reportVerdict({ ...about, step: body.definition.name, stepId: run.stepIdOf(event.id), ms: undefined }, event);
  }

  /**
   * The run was retried, and only its owner writes. If the outcome is still unknown there, the owner takes this one; if the attempt counts as
   * lapsed, its class has allowed a repetition, and the owner ignores the mail.
   */
  async #sendToOwner({ id: run, stepIdOf }: EndedRun, event: Event, retries: number): Promise<void> {
    if (event.type !== "done" && event.type !== "fail") return;
    const { id, attempt } = event;
    const to = event.type === "done" ? { done: event.value } : { fail: event.error };
    const payload = JSON.stringify({ attempt, to, by: newOwner(), retries } satisfies ResolutionMail);
    const about = stepIdOf(id);
    const mail = { to: { run }, kind: "resolve", about, payload, key: resolutionKey(about, attempt, retries) } as const;
    await this.#host.commit({ verb: "send", ...mail }, () => !this.#stopped.signal.aborted);
  }

  /** Resolves when the outcomes of all steps that are unknown are recorded, or at `until`. */
  async settled(until: number): Promise<void> {
    const { clock } = this.#host.store;
    const waits = () => this.#writing.size > 0 || [...this.#followed].some(({ inDoubt }) => inDoubt);
    while (waits() && clock.now() < until) await sleep(clock, 5);
  }

  /** Stops following bodies that still run. */
  stop(): void {
    this.#stopped.abort(new Error("the worker has stopped"));
    this.#followed.clear();
  }
}

/**
 * False if an operator was faster, or the run was retried since and has ended again: then the attempt has lapsed, unless its outcome is
 * still unknown.
 */
function isOpen({ id, attempt, inDoubt }: LateBody, { seq }: EndedRun, journal: EndedJournal): boolean {
  if (inDoubt || journal.retriedAt > seq) return journal.doubts.get(id) === attempt;
  return !journal.late.some((event) => "id" in event && event.id === id);
}
