import { renamed } from "../core/codec.js";
import { encodeError } from "../core/stored-error.js";
import type { RunEnd } from "./end-board.js";
import type { Execution } from "./execution.js";
import type { StepCall } from "./step-call.js";

/**
 * The end of a run: the code returns, throws, or is cancelled; what still runs is aborted and gets its grace; its verdicts
 * are journaled; then the end is.
 */
export class Ending {
  readonly #execution: Execution;
  #result: RunEnd | undefined;
  #reading = false;
  #wrappingUp = false;
  #recorded = false;

  constructor(execution: Execution) {
    this.#execution = execution;
    execution.deliveries.on("run", () => this.#end({ status: "cancelled", output: null }));
  }

  /** From here on the code is told nothing, and asks for nothing. */
  get result(): RunEnd | undefined {
    return this.#result;
  }

  /** The code has returned, and what it returned is being read. */
  get reading(): boolean {
    return this.#reading;
  }

  /** The end is the last event: whatever comes now is too late. */
  get recorded(): boolean {
    return this.#recorded;
  }

  returned(value: unknown): void {
    if (this.#result !== undefined || this.#execution.gone) return;
    const failed = (error: unknown) => this.threw(renamed("the result", error));
    try {
      const output = this.#execution.encodeValue(value);
      if (typeof output === "string") return this.#end({ status: "completed", output });
      this.#reading = true;
      output.then((read) => this.#end({ status: "completed", output: read }), failed);
    } catch (error) {
      failed(error);
    }
  }

  threw(error: unknown): void {
    this.#end({ status: "failed", output: encodeError(error, { stack: true }) });
  }

  #end(result: RunEnd): void {
    this.#reading = false;
    if (this.#result !== undefined || this.#execution.gone) return;
    this.#result = result;
    this.#execution.touch();
  }

  /** Called until the end is recorded. */
  wrapUp({ status, output }: RunEnd): void {
    const { writer, calls } = this.#execution;
    // What is being written may yet be rolled back.
    if (writer.inTransaction) return;
    const running = calls.withdraw();
    if (running.length > 0) return this.#giveGrace(running, status === "cancelled" ? "the run was cancelled" : "the run has ended");
    this.#recorded = true;
    this.#execution.record(["end", status, this.#execution.now(), output]);
  }

  /** Aborted, they have as long as the most patient of them allows. Those that do not stop are left behind. */
  #giveGrace(running: readonly StepCall[], why: string): void {
    if (this.#wrappingUp) return;
    this.#wrappingUp = true;
    const reason = new Error(why);
    for (const call of running) call.abort(reason);
    const graceMs = Math.max(...running.map((call) => call.definition.options().graceMs));
    this.#execution.store.clock.after(graceMs, () => {
      for (const call of running) call.abandon();
      this.#execution.touch();
    });
  }
}
