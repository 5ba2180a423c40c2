import { linkAborts } from "./abort-links.js";
import { callSite } from "./call-site.js";
import type { StepDefinition } from "./define.js";
import { describe } from "./describe.js";
import type { Event } from "./event.js";
import type { Execution } from "./execution.js";
import { never } from "./requests.js";
import { StepCall } from "./step-call.js";
import { checkedKey, inputOf } from "./step-input.js";

/** The steps that the code of a run has called. */
export class StepCalls {
  readonly #execution: Execution;
  readonly #calls = new Map<string, StepCall>();
  /** Those that the code was not told the end of: a run of a thousand steps looks at one of them, not at all. */
  readonly #open = new Set<StepCall>();

  constructor(execution: Execution) {
    this.#execution = execution;
  }

  call(definition: StepDefinition, args: readonly unknown[]): Promise<unknown> {
    const execution = this.#execution;
    const id = this.#idOf(definition, args);
    const existing = this.#calls.get(id);
    if (existing) return existing.promise;
    const { print, input } = inputOf(args, linkAborts(execution, id, args));
    const asked = execution.requests.ask(id, () => ["step", id, execution.now(), 1, print]);
    if (asked === undefined) return never();
    const call = new StepCall(execution, definition, id, input, print);
    this.#add(call);
    const { event, known } = asked;
    if (!known) call.begin(event[2]);
    else if (event[0] !== "step" || event[4] !== print) {
      const expected = `${describe(event)} with the arguments it had`;
      execution.parking.diverged({ expected, found: "the same call with other arguments", where: callSite() });
      return never();
    }
    return call.promise;
  }

  #idOf({ name, options }: StepDefinition, args: readonly unknown[]): string {
    const { key } = options();
    if (key === undefined) return this.#execution.requests.ordinal(name);
    return `${name}:${checkedKey(name, (key as (...args: readonly unknown[]) => unknown)(...args))}`;
  }

  #add(call: StepCall): void {
    this.#calls.set(call.id, call);
    this.#open.add(call);
    this.#execution.deliveries.on(call.id, (event) => {
      this.#open.delete(call);
      call.settle(event);
    });
  }

  get open(): ReadonlySet<StepCall> {
    return this.#open;
  }

  /** One of them is under way in this process. */
  get busy(): boolean {
    for (const call of this.#open) if (call.busy) return true;
    return false;
  }

  by(stepId: string): StepCall | undefined {
    for (const call of this.#calls.values()) if (call.stepId === stepId) return call;
    return undefined;
  }

  /** After a replay: `attempts` is what the journal says of each. */
  resume(attempts: ReadonlyMap<string, readonly Event[]>): void {
    for (const call of this.#open) call.resume(attempts.get(call.id) ?? []);
  }

  abort(reason: unknown): void {
    for (const call of this.#open) call.abort(reason);
  }

  /** The run is handed back: what has not begun is the next owner's to begin. */
  withhold(): void {
    const withheld = this.#execution.draft.withholdStarts();
    for (const call of this.#open) if (withheld.has(call.id)) call.withhold();
  }

  /** The run ends: what has not begun will not begin, also when the entry that would begin it is on its way. Returns what runs. */
  withdraw(): StepCall[] {
    const unwritten = this.#execution.draft.withholdStarts();
    const running: StepCall[] = [];
    for (const call of this.#open) {
      if (call.state === "running") running.push(call);
      else if (call.state === "starting") call.withdraw(!unwritten.has(call.id));
      // Nor is it asked about, waited for or tried again.
      else call.state = "settled";
    }
    return running;
  }
}
