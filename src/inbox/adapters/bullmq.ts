import type { Job, Processor } from "bullmq";
import { type ConsumeOptions, Consumer } from "./consuming.js";

/** How many jobs at a time, how they are read and when to stop is the worker's. */
export type BullMqOptions<T = unknown, R = unknown> = Pick<ConsumeOptions<T, R>, "inbox" | "handle" | "onError">;

/**
 * What a BullMQ worker does with a job: it goes through an inbox. A job that has to come again is delayed, a dead letter fails
 * for good.
 *
 * @example
 * const worker = new Worker("orders", processor({ inbox, handle: async ({ payload }) => ship(payload) }), { connection });
 */
export function processor<T = unknown, R = unknown>(options: BullMqOptions<T, R>): Processor<T, R | undefined> {
  const consumer = new Consumer(options);
  return async (job, token) => {
    const message = messageOf(job);
    const verdict = await consumer.verdict({ message });
    if ("againMs" in verdict) {
      // One that could not be delayed must not fail, which would be its end: without a word its lock runs out, and it comes again.
      await job.moveToDelayed(Date.now() + verdict.againMs, token).catch((error: unknown) => consumer.tell(error, message));
      throw named("DelayedError", `it comes again in ${verdict.againMs} ms`);
    }
    const { done } = verdict;
    // Where people look for what failed. It is kept and driven again by the inbox, not here.
    if (done.status === "dead") throw named("UnrecoverableError", `it is a dead letter of the inbox: ${done.error}`);
    return "result" in done ? done.result : undefined;
  };
}

function messageOf<T>({ id = "", name, data, queueName, attemptsStarted }: Job<T>) {
  return { id: `${queueName}/${id}`, payload: data, headers: { name }, redelivered: attemptsStarted > 1, source: queueName };
}

/** BullMQ knows its errors by their names: nothing of it has to be loaded for that. */
function named(name: string, message: string): Error {
  return Object.assign(new Error(message), { name });
}
