export interface EventStreamOptions<Event extends { readonly type: string }> {
  /** Subscribes the stream to events; returns the function that unsubscribes it. */
  readonly listen: (send: (event: Event) => void) => () => void;
  readonly eventsMax: number;
  readonly heartbeatMs: number;
  readonly signal: AbortSignal;
  /** What happens to a reader that is too slow. drop (default): it misses events, and goes on. end: its stream ends. */
  readonly whenFull?: "drop" | "end";
  /** Called once, when the stream ends for any reason. */
  readonly ended: () => void;
}

/**
 * A stream of server-sent events. Chunks are made when the reader pulls: until then up to `eventsMax` events wait; further
 * events are dropped, and a `dropped` event reports their count. Then the stream goes on, or ends.
 */
export function eventStream<Event extends { readonly type: string }>(options: EventStreamOptions<Event>): ReadableStream<Uint8Array> {
  const { listen, eventsMax, heartbeatMs, signal, ended, whenFull = "drop" } = options;
  const bytes = new TextEncoder();
  // Sent at once, so that the client knows that it is subscribed.
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
        const isOver = dropped > 0 && whenFull === "end";
        if (dropped > 0) texts.push(messageOf("dropped", { count: dropped }));
        dropped = 0;
        if (texts.length > 0 && !signal.aborted) controller.enqueue(bytes.encode(texts.join("")));
        if (!isOver || signal.aborted) return;
        end();
        controller.close();
      },
      cancel: () => end(),
    },
    { highWaterMark: 0 },
  );
}

/** JSON.stringify emits no line breaks, so one data line is enough. */
function messageOf(type: string, data: object): string {
  return `event: ${type}\ndata: ${JSON.stringify(data)}\n\n`;
}
