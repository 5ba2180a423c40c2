import type { RuntimeEvent } from "../exports/graph.js";

export interface EventStreamOptions {
  /** Tells the stream what happens; returns how to stop that. */
  readonly listen: (tell: (event: RuntimeEvent) => void) => () => void;
  readonly eventsMax: number;
  readonly heartbeatMs: number;
  readonly signal: AbortSignal;
  /** Called once, however it ends. */
  readonly ended: () => void;
}

/**
 * Server-sent events. Nothing is made before the reader asks for it: what happens in the meantime waits, up to a bound;
 * what is beyond is dropped, and the reader is told how much.
 */
export function eventStream({ listen, eventsMax, heartbeatMs, signal, ended }: EventStreamOptions): ReadableStream<Uint8Array> {
  const bytes = new TextEncoder();
  // At once, so that the reader knows that it is heard.
  let waiting: string[] = [": listening\n\n"];
  let dropped = 0;
  let wake = (): void => {};
  const add = (text: string): void => {
    if (waiting.length < eventsMax) waiting.push(text);
    else dropped += 1;
    wake();
  };
  let end = (): void => {};
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        const forget = listen((event) => add(messageOf(event.type, { at: new Date(), ...event })));
        const timer = setInterval(() => waiting.length === 0 && add(": still here\n\n"), heartbeatMs);
        const close = (): void => {
          end();
          controller.close();
        };
        end = () => {
          end = () => {};
          forget();
          clearInterval(timer);
          signal.removeEventListener("abort", close);
          wake();
          ended();
        };
        signal.addEventListener("abort", close, { once: true });
        if (signal.aborted) close();
      },
      async pull(controller) {
        if (waiting.length === 0) await new Promise<void>((resolve) => (wake = resolve));
        const texts = waiting;
        waiting = [];
        if (dropped > 0) texts.push(messageOf("dropped", { count: dropped }));
        dropped = 0;
        if (texts.length > 0 && !signal.aborted) controller.enqueue(bytes.encode(texts.join("")));
      },
      cancel: () => end(),
    },
    { highWaterMark: 0 },
  );
}

/** JSON has no line breaks: one line of data is all. */
function messageOf(type: string, data: object): string {
  return `event: ${type}\ndata: ${JSON.stringify(data)}\n\n`;
}
