import type { FlowEvent } from "./event.js";
import type { FlowResult } from "./result.js";

/**
 * A run that can be watched while it is under way. Its events are kept until they are read: as many as the flow has
 * steps and retries.
 */
export class FlowRun implements AsyncIterable<FlowEvent> {
  /** Rejects when the flow could not be run at all. */
  readonly result: Promise<FlowResult>;
  readonly #events: FlowEvent[] = [];
  #over = false;
  #wake: (() => void)[] = [];

  constructor(run: (listener: (event: FlowEvent) => void) => Promise<FlowResult>) {
    const wake = () => {
      for (const go of this.#wake.splice(0)) go();
    };
    this.result = run((event) => {
      this.#events.push(event);
      wake();
    }).finally(() => {
      this.#over = true;
      wake();
    });
    // Who only reads the events hears of it at their end.
    this.result.catch(() => {});
  }

  /** From the beginning, for everybody who asks. Throws at the end what `result` rejects with. */
  async *[Symbol.asyncIterator](): AsyncGenerator<FlowEvent> {
    for (let next = 0; ; ) {
      const event = this.#events[next];
      if (event !== undefined) {
        next += 1;
        yield event;
      } else if (this.#over) {
        await this.result;
        return;
      } else await new Promise<void>((go) => void this.#wake.push(go));
    }
  }
}
