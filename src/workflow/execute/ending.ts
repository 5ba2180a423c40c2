import { renamed } from "../../core/values/codec.js";
import { decodeError, encodeError } from "../../core/values/stored-error.js";
import type { Clock } from "../../core/work/clock.js";
import { CancelledError } from "../define/errors.js";
import type { Delivery, Event, RunEnd } from "../journal/event.js";
import type { RunResult } from "../journal/writer/departure.js";
import type { NotedRun } from "../steps/call/doubt.js";
import { abandonBody } from "../steps/call/leave.js";
import type { StepCall } from "../steps/call/step-call.js";
import type { Encoder } from "../steps/encoded-result.js";
import { warnOfForgotten } from "../steps/forgotten-calls.js";
import type { WatchedCall } from "../steps/watched-call.js";
import { withoutWritable } from "../streams/writable.js";

/** A call of the run that ends. */
type EndingCall = StepCall<NotedRun>;

/** The run that ends. */
interface EndingRun extends Encoder {
  readonly id: string;
  readonly workflow: { readonly name: string };
  readonly store: { readonly clock: Clock };
  readonly gone: boolean;
  readonly writer: { readonly inTransaction: boolean };
  readonly stopping: { readonly isStopping: boolean };
  readonly mailbox: { readonly leftAside: number | undefined };
  readonly children: { cancelOwn(payload: string | null): void };
  readonly calls: {
    readonly open: ReadonlySet<EndingCall>;
    readonly unobserved: readonly WatchedCall[];
    withdraw(awaited: ReadonlySet<EndingCall>): readonly EndingCall[];
  };
  now(): number;
  record(event: Event): void;
  touch(): void;
}

/** The code has returned while steps that it did not await have not ended. */
interface ReturnedCode {
  readonly output: string;
  readonly forgotten: readonly WatchedCall[];
}

const none: ReadonlySet<EndingCall> = new Set();

/**
 * The end of a run. The code returns, throws, or is cancelled; steps that still run are aborted and get their grace period;
 * their verdicts are journaled; then the end is journaled.
 *
 * Steps whose promise the code never observed (a forgotten `await`) are not aborted when the code returns: the run waits for
 * them, through retries and restarts, and fails if one of them fails. Meanwhile the code gets no deliveries and makes no
 * requests.
 */
export class Ending {
  readonly #run: EndingRun;
  /** The journal already has the end: also one of a version that did not wait for steps that the code did not await. */
  readonly #wasCompleted: boolean;
  #returned: ReturnedCode | undefined;
  #result: RunResult | undefined;
  #reading = false;
  #inGrace: Set<EndingCall> | undefined;
  #recorded = false;
  #refused = false;
  #trouble: string | undefined;
  /** The code got no time for cleaning up, or did not use it in time. */
  #isTerminated = false;

  /** `journaled`: the end in the journal, if it has one. */
  constructor(run: EndingRun, journaled: RunEnd | undefined) {
    this.#run = run;
    this.#wasCompleted = journaled?.status === "completed";
  }

  /** The code gets no more deliveries and makes no more requests. */
  get over(): boolean {
    return this.#result !== undefined || this.#returned !== undefined;
  }

  /** How the run ends. Undefined while it waits for steps that the code did not await. */
  get result(): RunResult | undefined {
    return this.#result;
  }

  /** The steps that the run waits for after its code has returned. */
  get awaited(): ReadonlySet<EndingCall> {
    const forgotten = this.#result === undefined ? this.#returned?.forgotten : undefined;
    if (forgotten === undefined || forgotten.length === 0) return none;
    return new Set([...this.#run.calls.open].filter((call) => !call.isCancelled && forgotten.includes(call)));
  }

  waitsFor({ type, id }: Delivery): boolean {
    return type === "cancel" || [...this.awaited].some((call) => call.id === id);
  }

  /** False if the run is ending and does not wait for this call. */
  goesOnFor(call: WatchedCall): boolean {
    return !this.over || [...this.awaited].some((awaited) => awaited === call);
  }

  /** The code has returned, and its result is being read. */
  get reading(): boolean {
    return this.#reading;
  }

  /** The end is recorded as the last event: later deliveries are too late. */
  get recorded(): boolean {
    return this.#recorded;
  }

  /** The store has rejected an entry. Only the end is written from now on: requests are missing, so a replay would diverge. */
  get refused(): boolean {
    return this.#refused;
  }

  /** The code has returned `value`. */
  complete(value: unknown): void {
    if (this.over || this.#run.gone) return;
    const forgotten = this.#wasCompleted ? [] : this.#run.calls.unobserved;
    const fail = (error: unknown) => this.fail(renamed("the result", error));
    try {
      const output = this.#run.encodeValue(value);
      const complete = (text: string) => this.#complete({ output: withoutWritable("the result", text), forgotten });
      if (typeof output === "string") return complete(output);
      this.#reading = true;
      output.then(complete).catch(fail);
    } catch (error) {
      fail(error);
    }
  }

  /** Why an operator should look at the run although it has ended. */
  get trouble(): string | undefined {
    return this.#trouble;
  }

  /** The code has thrown `error`. */
  fail(error: unknown): void {
    if (this.#run.stopping.isStopping && !this.over && !isCancellation(error))
      this.#trouble = `after the cancellation the code threw ${error instanceof Error ? `${error.name}: ${error.message}` : String(error)}`;
    this.#end({ status: "failed", output: encodeError(error, { stack: true }) });
  }

  /** The code gets no time for cleaning up, or no more. */
  cancel(why?: "cleanup"): void {
    if (this.#result === undefined) this.#isTerminated = true;
    if (why === "cleanup" && this.#result === undefined) this.#trouble = this.#cutOff();
    this.#end({ status: "cancelled", output: null });
  }

  #cutOff(): string {
    const open = [...this.#run.calls.open].filter((call) => !call.isCancelled && call.state !== "settled");
    const steps = open.map(({ definition, stepId }) => `"${definition.name}" (${stepId})`);
    const where = steps.length === 0 ? "while the code was waiting" : `in ${steps.length === 1 ? "step" : "steps"} ${steps.join(", ")}`;
    return `the time for cleaning up was over before the code had ended: it was cut off ${where}`;
  }

  #complete(returned: ReturnedCode): void {
    this.#reading = false;
    if (this.over || this.#run.gone) return;
    this.#returned = returned;
    if (returned.forgotten.length > 0) warnOfForgotten(this.#run, returned.forgotten);
    this.settle();
    this.#run.touch();
  }

  /** After the code has returned, ends the run when the last step that it waits for has ended. */
  settle(): void {
    if (this.#returned === undefined || this.#result !== undefined || this.awaited.size > 0) return;
    const { output, forgotten } = this.#returned;
    const failed = forgotten.find((call) => call.rejection !== undefined)?.rejection;
    if (failed !== undefined) this.fail(decodeError(failed));
    else this.#end({ status: "completed", output });
  }

  /** The run fails with the store's error, even if its code had returned, because the result was not written. A cancelled run stays cancelled. */
  refuse(error: unknown): void {
    this.#refused = true;
    this.#recorded = false;
    this.#reading = false;
    if (this.#result?.status !== "cancelled") this.#result = { status: "failed", output: encodeError(error, { stack: true }) };
    this.#run.touch();
  }

  #end(result: RunResult): void {
    this.#reading = false;
    if (this.#result !== undefined || this.#run.gone) return;
    // The code has cleaned up, or it could not: the run ends as cancelled, whatever the code returned or threw.
    this.#result = this.#run.stopping.isStopping ? { status: "cancelled", output: null } : result;
    this.#run.touch();
  }

  /** Called in each turn until the end is recorded. */
  wrapUp(): void {
    const { writer, calls } = this.#run;
    // The transaction may still be rolled back.
    if (writer.inTransaction) return;
    const running = calls.withdraw(this.awaited);
    this.#giveGrace(running, this.#result?.status === "cancelled" ? "the run was cancelled" : "the run has ended");
    if (this.#result === undefined || running.length > 0) return;
    this.#recorded = true;
    const { status, output } = this.#result;
    if (this.#isTerminated) this.#run.children.cancelOwn(null);
    const { leftAside } = this.#run.mailbox;
    if (leftAside !== undefined) this.#run.record({ type: "park", at: this.#run.now(), mail: leftAside });
    this.#run.record({ type: "end", status, at: this.#run.now(), output });
  }

  /** Aborts the bodies and waits for the longest of their grace periods. Bodies that have not stopped by then are abandoned. */
  #giveGrace(running: readonly EndingCall[], why: string): void {
    if (running.length === 0) return;
    this.#inGrace ??= new Set();
    const inGrace = this.#inGrace;
    const fresh = running.filter((call) => !inGrace.has(call));
    if (fresh.length === 0) return;
    const reason = new Error(why);
    for (const call of fresh) {
      inGrace.add(call);
      call.abort(reason);
    }
    const graceMs = Math.max(...fresh.map((call) => call.definition.options().graceMs));
    this.#run.store.clock.after(graceMs, () => {
      for (const call of fresh) abandonBody(call);
      this.#run.touch();
    });
  }
}

/** Also an error whose cause is the cancellation: the code reports why it has ended. */
function isCancellation(error: unknown): boolean {
  for (let each = error, depth = 0; depth < 10; depth++) {
    if (CancelledError.is(each)) return true;
    if (!(each instanceof Error)) return false;
    each = each.cause;
  }
  return false;
}
