import type { FlowEvent } from "./event.js";
import type { FlowResult } from "./result.js";

/**
 * A run of a flow whose events can be iterated while it runs. All events stay in memory, so every iteration starts at the
 * first event.
 */
export class FlowRun implements AsyncIterable<FlowEvent> {
  /** Resolves and rejects as `flow.run` does. */
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
    // Callers that only iterate the events get the rejection at the end of the iteration.
    this.result.catch(() => {});
  }

  /** Iterates all events from the first. If `result` rejects, the iteration ends by throwing the same error. */
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
