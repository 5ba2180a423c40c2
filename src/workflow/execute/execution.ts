import { isHeard, publish } from "../../core/events/channels.js";
import type { Entry, Then } from "../../core/runs/operation.js";
import { runIn, type WorkflowContext } from "../define/context.js";
import { RunNotWritableError } from "../define/errors.js";
import { messageOf } from "../define/message-of.js";
import { describe } from "../journal/describe.js";
import type { Delivery, Event } from "../journal/event.js";
import type { Departure } from "../journal/writer/departure.js";
import { warnNotWritten } from "../journal/writer/not-written.js";
import type { Divergence } from "../replay/divergence.js";
import type { ExecutionOptions } from "./execution-options.js";
import { stillAvoiding } from "./parking/avoidance.js";
import { parkDiverged, parkForeseen } from "./parking/diverged.js";
import { parkUnreadable } from "./parking/unreadable.js";
import { RunParts } from "./run-parts.js";
import { reportVerdicts } from "./step-events.js";

/**
 * One run in the memory of this process.
 *
 *   start     the code runs until it waits
 *   advance   one turn, after every ready promise has run: the code gets one delivery, first from the journal (replay), then
 *             from arrivals (live); if there is none, recorded events are committed, or the run rests
 *   confirm   the entry is in the store: the bodies of its steps start, and their verdicts arrive
 *   leave     the run has ended, was released, or was taken over by another worker
 *
 * The code gets one delivery at a time, and the next one only when everything that follows from it has run. Requests and
 * deliveries are recorded in order; a replay gives the code the same deliveries in the same order, so the code makes the same
 * requests. Recorded events are committed as one journal entry whenever the code waits, and nothing that is visible to other
 * processes happens before the commit that records it. A crash at any point loses only uncommitted events, which no other
 * process has seen.
 */
export class Execution extends RunParts implements WorkflowContext {
  readonly kind = "workflow";
  readonly #args: readonly unknown[];
  /** The lease of the previous owner expired; that owner may not know that it has lost the run. */
  readonly #lapsed: boolean;

  constructor(options: ExecutionOptions) {
    super(options);
    this.#args = options.args;
    this.#lapsed = options.lapsed;
  }

  // ——— the code, turn by turn

  /** Calls the workflow function, which runs until it waits. Everything after that happens in `advance`. */
  start(): void {
    void runIn(this, () => this.#runCode());
    this.touch();
  }

  async #runCode(): Promise<void> {
    const fn = this.workflow.fn as (...args: readonly unknown[]) => unknown;
    let value: unknown;
    try {
      value = await fn(...this.#args);
    } catch (error) {
      return this.ending.fail(error);
    }
    this.ending.complete(value);
  }

  /** One turn. Called after every ready promise has run, so the code waits or has ended. */
  advance(): void {
    const { answers, ending } = this;
    if (this.gone || this.state === "returning" || this.check?.underWay) return;
    ending.settle();
    if (answers.unreadable !== undefined) return parkUnreadable(this, answers.unreadable);
    if (this.#deliverNext()) return this.touch();
    if (this.state === "replaying") {
      this.#goLive();
      return this.touch();
    }
    if (ending.over && !ending.recorded) ending.wrapUp();
    if (!this.writer.busy) this.#commitOrRest();
  }

  /** False if there is no delivery for the code now. */
  #deliverNext(): boolean {
    const next = this.replay.nextDelivery;
    if (next !== undefined) {
      this.#deliverJournaled(next);
      return true;
    }
    if (this.state !== "live" || this.writer.inTransaction) return false;
    if (this.ending.result === undefined) return this.arrivals.giveNext();
    this.arrivals.recordVerdicts();
    return false;
  }

  #deliverJournaled(next: Delivery): void {
    this.replay.takeDelivery();
    // After the end of the code, the journal may have verdicts of steps that the code did not await.
    if (this.answers.give(next) || this.ending.over) return;
    this.diverge({ expected: describe(next), found: "the code did not ask for it" });
  }

  /** The code has received all journaled deliveries and waits: the replay is over. */
  #goLive(): void {
    const { openRequest } = this.replay;
    const { over: isOver, awaited } = this.ending;
    if (openRequest !== undefined)
      return this.diverge({
        expected: describe(openRequest),
        found: isOver ? "the code has ended" : "the code waits for something else",
      });
    if (this.host.rehearsal) return this.host.rehearsal.match();
    this.state = "live";
    this.#reportResumed();
    this.#recordClaim();
    if (this.history.parked !== undefined) this.record({ type: "unpark", at: this.now() });
    if (isOver) this.calls.resumeEnded(this.attempts, awaited);
    else this.calls.resume(this.attempts);
    this.hooks.resume();
    this.children.resume(this.history.retried);
    this.mailbox.open();
    this.fireTimers();
  }

  #reportResumed(): void {
    if (this.writer.isUnbegun || !isHeard("run")) return;
    const { id: run, workflow, epoch, host, store } = this;
    publish("run", {
      type: "resumed",
      store: store.name,
      run,
      workflow: workflow.name,
      worker: host.owner,
      epoch,
      takenOver: this.#lapsed,
    });
  }

  /** The previous owner may not know that it has lost the run: this entry takes the number of the entry that it would write. */
  #recordClaim(): void {
    if (this.#lapsed) this.record({ type: "claim", owner: this.host.owner, at: this.now() });
  }

  /** Ends sleeps and starts attempts that are due. Of a paused run, only the deadline is. */
  fireTimers(): void {
    const now = this.now();
    if (this.stopping.fire(now)) this.pausing.end();
    if (this.pausing.isPaused) return this.touch();
    if (!this.ending.over) this.sleeps.fire(now);
    this.calls.fire(now);
    this.touch();
  }

  // ——— the code waits: commit recorded events, or rest

  /**
   * The order matters. A value that is still being read cannot be part of an entry, so the run waits for it first, also before
   * the end. When the code has ended, only the end is committed. A step that cannot start withholds the other steps before
   * `busy` is read, because they no longer run. A run that the worker must release does not rest here. The replay check comes
   * before the write that releases the run, so that a divergence is found here and not by the next owner.
   */
  #commitOrRest(): void {
    const { draft, ending, release } = this;
    if (draft.unready !== undefined) return void draft.unready.then(() => this.touch());
    if (ending.result !== undefined) return this.#commitEnd();
    const { refusedStep } = this.parking;
    if (refusedStep !== undefined) this.calls.withhold();
    const busy = this.busy;
    if (refusedStep !== undefined && !busy) return this.parking.releaseRefused(refusedStep);
    if (release.isRequested) return release.commitOrWait();
    const leaving = this.rest.decideLeaving({ busy, drafted: draft.hasEvents });
    if (this.check?.begin(leaving, busy)) return;
    if (leaving !== undefined) this.commit(leaving, true);
    // A run that waits for a promise of its own without having requested anything must still be created in the store.
    // Mail that led to no event is not committed alone, because a late copy of such a write could undo a later one. It is
    // committed with the next entry.
    else if (draft.hasEvents || this.writer.mustCreate) this.commit({ kind: "hold" });
    else this.rest.wait();
  }

  #commitEnd(): void {
    const { ending, draft } = this;
    if (ending.recorded && ending.result !== undefined) {
      const unsettled = this.calls.unknown;
      const trouble = ending.trouble === undefined ? {} : { trouble: ending.trouble };
      this.commit({ kind: "end", ...ending.result, ...(unsettled > 0 ? { unsettled } : {}), ...trouble });
    } else if (draft.hasEvents && !ending.refused) this.commit({ kind: "hold" });
  }

  /** `atRest`: the run has nothing to do until a timer fires or mail arrives. */
  commit(then: Then, atRest = false): void {
    this.rest.stop();
    void this.writer.commit(stillAvoiding(then, this.avoid), atRest);
  }

  /** The entry is in the store. The writer starts the step bodies now. */
  confirm({ hooks, then }: Entry, conflicts: readonly string[], recorded: readonly Event[]): void {
    this.check?.noteWritten(recorded);
    reportVerdicts(this, recorded);
    if (then.kind === "end") {
      const { status, output, unsettled = 0 } = then;
      return this.leave({ why: "ended", status, output, unsettled, seq: this.writer.seq - 1 });
    }
    if (then.kind === "release")
      return this.leave({ why: "released", wakeAt: then.avoid?.workers.includes(this.host.owner) ? then.avoid.until : then.wakeAt });
    this.hooks.confirm(hooks, conflicts);
    this.touch();
  }

  /** The store rejects an entry because of its data: the run fails, instead of repeating its last step without end. */
  failRefused(error: unknown): void {
    warnNotWritten(this.id, `fails: the store rejected its journal entry: ${messageOf(error)}`);
    this.ending.refuse(new RunNotWritableError(this.id, messageOf(error)));
  }

  /** A transaction has committed this delivery: the code gets it next. */
  deliver(delivery: Delivery): void {
    if (this.ending.result === undefined) this.arrivals.give(delivery);
  }

  finishCheck(divergence: Divergence | undefined): void {
    if (divergence !== undefined) parkForeseen(this, divergence);
    this.touch();
  }

  // ——— leaving

  /** The code makes other requests than the journal has. */
  diverge(divergence: Divergence): void {
    parkDiverged(this, divergence);
  }

  /** The run goes back to the store before its replay was complete. */
  stopReplay(): void {
    this.state = "returning";
    this.#recordClaim();
  }

  lose(reason: unknown): void {
    if (this.gone) return;
    this.calls.abort(reason);
    this.leave({ why: "lost" });
  }

  leave(departure: Departure): void {
    if (this.gone) return;
    this.departure = departure;
    if (departure.why === "ended") this.rejections.warnAtEnd();
    this.rest.stop();
    this.writer.finish();
    this.host.remove(this, departure);
  }
}
