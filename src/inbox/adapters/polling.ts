import { backoffMs } from "../../core/work/backoff.js";
import type { Arrived } from "./arrived.js";
import { type Consumer, type Consuming, outageBackoff, pause } from "./consuming.js";
import { UnderWay } from "./under-way.js";

/** A message of a broker that delivers it again unless it is acknowledged within a time limit. */
export interface Delivery<T> extends Arrived<T> {
  /** Acknowledges the message. */
  done(): Promise<void> | void;
  /** Asks the broker to deliver the message again after `afterMs`. */
  again(afterMs: number): Promise<void> | void;
  /** Restarts the broker's timeout: the message is still being handled. */
  extend(): Promise<void> | void;
}

interface Polling<T> {
  /** How often `extend` is called: well within the broker's timeout. */
  readonly extendEveryMs: number;
  /** Yields up to `room` messages as they arrive; ends after some seconds without messages, or when the signal aborts. */
  take(room: number, signal: AbortSignal): AsyncIterable<Delivery<T>>;
}

/** Polls the broker for as many messages as there is room for, until stopped. Errors of the broker are reported and retried. */
export function poll<T, R>(consumer: Consumer<T, R>, { extendEveryMs, take }: Polling<T>): Consuming {
  const stopping = new AbortController();
  const { signal } = stopping;
  const underWay = new UnderWay(consumer.concurrency);

  const taking = (async () => {
    for (let failures = 0; !signal.aborted; ) {
      try {
        const room = await underWay.room();
        if (signal.aborted) return;
        for await (const delivery of take(room, signal)) underWay.add(deliver(consumer, delivery, extendEveryMs));
        failures = 0;
      } catch (error) {
        if (signal.aborted) return;
        consumer.reportError(error);
        await pause(backoffMs(outageBackoff, ++failures), signal);
      }
    }
  })();
  return {
    stop: async () => {
      stopping.abort();
      await taking;
      await underWay.drained();
    },
  };
}

/**
 * Handles a message, then acknowledges it or returns it. If the process dies at any point here, or the broker does not
 * receive the call, the broker delivers the message again, and the inbox knows whether it was handled.
 */
async function deliver<T, R>(consumer: Consumer<T, R>, delivery: Delivery<T>, extendEveryMs: number): Promise<void> {
  const beat = setInterval(() => void attempt(consumer, delivery, () => delivery.extend()), extendEveryMs);
  // `verdict` never rejects.
  const verdict = await consumer.verdict(delivery);
  clearInterval(beat);
  await attempt(consumer, delivery, () => ("done" in verdict ? delivery.done() : delivery.again(verdict.againMs)));
}

async function attempt<T, R>(consumer: Consumer<T, R>, { message }: Delivery<T>, callBroker: () => Promise<void> | void): Promise<void> {
  try {
    await callBroker();
  } catch (error) {
    consumer.reportError(error, message);
  }
}
