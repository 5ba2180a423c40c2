import { backoffMs } from "../../core/work/backoff.js";
import type { Arrived } from "./arrived.js";
import { type Consumer, type Consuming, outageBackoff, pause } from "./consuming.js";
import { UnderWay } from "./under-way.js";

/** A message of a broker that hands out messages for a time, and hands them out again when it hears nothing. */
export interface Delivery<T> extends Arrived<T> {
  /** The broker may forget it. */
  done(): Promise<void> | void;
  /** The broker hands it out again, not before so many ms. */
  again(afterMs: number): Promise<void> | void;
  /** Somebody is at it: the broker starts counting anew. */
  atIt(): Promise<void> | void;
}

interface Polling<T> {
  /** How often the broker is told that somebody is at it: well before it gives up on that. */
  readonly atItEveryMs: number;
  /** Up to `room` messages, as they come; it ends after some seconds without, or when the signal says so. */
  take(room: number, signal: AbortSignal): AsyncIterable<Delivery<T>>;
}

/** Takes what there is room for, until it is stopped. What goes wrong at the broker is told, and tried again. */
export function poll<T, R>(consumer: Consumer<T, R>, { atItEveryMs, take }: Polling<T>): Consuming {
  const stopping = new AbortController();
  const { signal } = stopping;
  const underWay = new UnderWay(consumer.concurrency);

  const taking = (async () => {
    for (let failures = 0; !signal.aborted; ) {
      try {
        const room = await underWay.room();
        if (signal.aborted) return;
        for await (const delivery of take(room, signal)) underWay.add(deliver(consumer, delivery, atItEveryMs));
        failures = 0;
      } catch (error) {
        if (signal.aborted) return;
        consumer.tell(error);
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
 * message → inbox → acknowledged, or handed out again. If we die on one of these lines, or the broker does not hear us, it
 * hands the message out again, and the inbox knows what became of it.
 */
async function deliver<T, R>(consumer: Consumer<T, R>, delivery: Delivery<T>, atItEveryMs: number): Promise<void> {
  const beat = setInterval(() => void attempt(consumer, delivery, () => delivery.atIt()), atItEveryMs);
  const verdict = await consumer.verdict(delivery);
  clearInterval(beat);
  await attempt(consumer, delivery, () => ("done" in verdict ? delivery.done() : delivery.again(verdict.againMs)));
}

async function attempt<T, R>(consumer: Consumer<T, R>, { message }: Delivery<T>, tellBroker: () => Promise<void> | void): Promise<void> {
  try {
    await tellBroker();
  } catch (error) {
    consumer.tell(error, message);
  }
}
