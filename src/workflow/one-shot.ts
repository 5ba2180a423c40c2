import type { Store } from "../core/store.js";
import { readableOf } from "./readable.js";
import type { StepBody } from "./step-body.js";

/**
 * One answer from a step to somebody who waits outside for it, over a stream of the run: durable when this resolves. A
 * second attempt replaces it; who waits may have seen the first.
 */
export async function writeOnce(body: StepBody, stream: string, value: unknown): Promise<void> {
  await body.writer.write(stream, value);
  await body.writer.settled();
}

/** The first chunk of a stream; undefined when there is none within the time, or the run is over without one. */
export async function firstChunk(store: Store, run: string, stream: string, timeoutMs: number): Promise<unknown> {
  const reader = readableOf({ run, stream, store: async () => store }).getReader();
  // Ends the read with nothing.
  const stop = store.clock.after(timeoutMs, () => void reader.cancel());
  try {
    return (await reader.read()).value;
  } finally {
    stop();
    void reader.cancel().catch(() => {});
  }
}
