import { renamed } from "../../core/values/codec.js";
import { decodeError, encodeError } from "../../core/values/stored-error.js";
import type { Delivery } from "../journal/event.js";
import type { History } from "../journal/history.js";
import type { StepCall, WatchedCall } from "../steps/step-call.js";
import { withoutWritable } from "../streams/writable.js";
import type { RunEnd } from "../worker/end-board.js";
import type { Execution } from "./execution.js";
import { warnOfForgotten } from "./forgotten-calls.js";

/** The code has returned, and steps that it did not await are not at their end. */
interface Returned {
  readonly output: string;
  readonly forgotten: readonly WatchedCall[];
}

/**
 * The end of a run: the code returns, throws, or is cancelled; what still runs is aborted and gets its grace; its verdicts
 * are journaled; then the end is.
 *
 * Steps whose promise the code never looked at are no part of "what still runs" when the code returns: the run waits for
 * them, through retries and restarts, and fails if one of them has failed. Meanwhile the code is told nothing, and asks
 * for nothing.
 */
export class Ending {
  readonly #execution: Execution;
  /** The journal has the end, of a version that did not wait for steps that were not awaited, too. */
  readonly #wasCompleted: boolean;
  #returned: Returned | undefined;
  #result: RunEnd | undefined;
  #reading = false;
  readonly #inGrace = new Set<StepCall>();
  #recorded = false;
  #refused = false;

  constructor(execution: Execution, { end }: History) {
    this.#execution = execution;
    this.#wasCompleted = end?.status === "completed";
    execution.deliveries.on("run", () => this.#end({ status: "cancelled", output: null }));
  }

  /** From here on the code is told nothing, and asks for nothing. */
  get over(): boolean {
    return this.#result !== undefined || this.#returned !== undefined;
  }

  /** How the run ends. Undefined while it waits for steps that the code did not await. */
  get result(): RunEnd | undefined {
    return this.#result;
  }

  /** The steps that it waits for. */
  get awaited(): ReadonlySet<StepCall> {
    if (this.#returned === undefined || this.#result !== undefined) return new Set();
    const { open } = this.#execution.calls;
    return new Set([...open].filter((call) => this.#returned?.forgotten.includes(call)));
  }

  waitsFor({ type, id }: Delivery): boolean {
    return type === "cancel" || [...this.awaited].some((call) => call.id === id);
  }

  /** The code has returned, and what it returned is being read. */
  get reading(): boolean {
    return this.#reading;
  }

  /** The end is the last event: whatever comes now is too late. */
  get recorded(): boolean {
    return this.#recorded;
  }

  /** The store has refused an entry. Until the end nothing is written: requests are missing, and a replay would diverge. */
  get refused(): boolean {
    return this.#refused;
  }

  returned(value: unknown): void {
    if (this.over || this.#execution.gone) return;
    const forgotten = this.#wasCompleted ? [] : this.#execution.calls.unobserved;
    const failed = (error: unknown) => this.threw(renamed("the result", error));
    try {
      const output = this.#execution.encodeValue(value);
      const completed = (text: string) => this.#complete({ output: withoutWritable("the result", text), forgotten });
      if (typeof output === "string") return completed(output);
      this.#reading = true;
      output.then(completed).catch(failed);
    } catch (error) {
      failed(error);
    }
  }

  threw(error: unknown): void {
    this.#end({ status: "failed", output: encodeError(error, { stack: true }) });
  }

  #complete(returned: Returned): void {
    this.#reading = false;
    if (this.over || this.#execution.gone) return;
    this.#returned = returned;
    if (returned.forgotten.length > 0) warnOfForgotten(this.#execution, returned.forgotten);
    this.settle();
    this.#execution.touch();
  }

  /** Once the code has returned: the run ends when the last step that it waits for has. */
  settle(): void {
    if (this.#returned === undefined || this.#result !== undefined || this.awaited.size > 0) return;
    const { output, forgotten } = this.#returned;
    const failed = forgotten.find((call) => call.rejection !== undefined)?.rejection;
    if (failed !== undefined) this.threw(decodeError(failed));
    else this.#end({ status: "completed", output });
  }

  /** The run fails with what the store said, also when its code had returned: that was not written. A cancelled run stays so. */
  refuse(error: unknown): void {
    this.#refused = true;
    this.#recorded = false;
    this.#reading = false;
    if (this.#result?.status !== "cancelled") this.#result = { status: "failed", output: encodeError(error, { stack: true }) };
    this.#execution.touch();
  }

  #end(result: RunEnd): void {
    this.#reading = false;
    if (this.#result !== undefined || this.#execution.gone) return;
    this.#result = result;
    this.#execution.touch();
  }

  /** Called until the end is recorded. */
  wrapUp(): void {
    const { writer, calls } = this.#execution;
    // What is being written may yet be rolled back.
    if (writer.inTransaction) return;
    const running = calls.withdraw(this.awaited);
    this.#giveGrace(running, this.#result?.status === "cancelled" ? "the run was cancelled" : "the run has ended");
    if (this.#result === undefined || running.length > 0) return;
    this.#recorded = true;
    const { status, output } = this.#result;
    this.#execution.record({ type: "end", status, at: this.#execution.now(), output });
  }

  /** Aborted, they have as long as the most patient of them allows. Those that do not stop are left behind. */
  #giveGrace(running: readonly StepCall[], why: string): void {
    const fresh = running.filter((call) => !this.#inGrace.has(call));
    if (fresh.length === 0) return;
    const reason = new Error(why);
    for (const call of fresh) {
      this.#inGrace.add(call);
      call.abort(reason);
    }
    const graceMs = Math.max(...fresh.map((call) => call.definition.options().graceMs));
    this.#execution.store.clock.after(graceMs, () => {
      for (const call of fresh) call.abandon();
      this.#execution.touch();
    });
  }
}
