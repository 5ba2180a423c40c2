import type { Job, Processor } from "bullmq";
import { type ConsumeOptions, Consumer } from "./consuming.js";

/** Options of `processor`. Concurrency, decoding and shutdown are configured on the BullMQ worker. */
export type BullMqOptions<T = unknown, R = unknown> = Pick<ConsumeOptions<T, R>, "inbox" | "handle" | "onError">;

/**
 * Creates a BullMQ processor that handles jobs through an inbox. A job to retry is moved to delayed; the job of a dead letter
 * fails with UnrecoverableError. Throws InvalidInputError for wrong options.
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
      // If the job cannot be delayed it must not fail, which would be final: its lock expires, and BullMQ runs it again.
      await job.moveToDelayed(Date.now() + verdict.againMs, token).catch((error: unknown) => consumer.reportError(error, message));
      throw named("DelayedError", `retry in ${verdict.againMs} ms`);
    }
    const { done } = verdict;
    // Shows the job as failed in BullMQ. The inbox keeps the dead letter and retries it (`inbox.retry`).
    if (done.status === "dead") throw named("UnrecoverableError", `dead letter of the inbox: ${done.error}`);
    return "result" in done ? done.result : undefined;
  };
}

function messageOf<T>({ id = "", name, data, queueName, attemptsStarted }: Job<T>) {
  return { id: `${queueName}/${id}`, payload: data, headers: { name }, redelivered: attemptsStarted > 1, source: queueName };
}

/** BullMQ recognizes its errors by name, so the package need not be imported. */
function named(name: string, message: string): Error {
  return Object.assign(new Error(message), { name });
}
