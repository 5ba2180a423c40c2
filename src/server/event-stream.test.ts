import { expect, test } from "vitest";
import { eventStream } from "./event-stream.js";

interface Ping {
  readonly type: "ping";
  readonly n: number;
}

test("a reader that is too slow gets a note, and its stream ends or goes on", async () => {
  for (const whenFull of ["drop", "end"] as const) {
    let send: (event: Ping) => void = () => {};
    let ended = 0;
    const stop = new AbortController();
    const stream = eventStream<Ping>({
      listen: (to) => {
        send = to;
        return () => {};
      },
      ...{ eventsMax: 3, heartbeatMs: 60_000, signal: stop.signal, whenFull },
      ended: () => (ended += 1),
    });
    for (let n = 0; n < 5; n += 1) send({ type: "ping", n });
    const reader = stream.getReader();
    const first = new TextDecoder().decode((await reader.read()).value);
    expect(first).toContain('event: dropped\ndata: {"count":3}');
    expect(ended).toBe(whenFull === "end" ? 1 : 0);
    if (whenFull === "end") expect(await reader.read()).toMatchObject({ done: true });
    else {
      send({ type: "ping", n: 9 });
      expect(new TextDecoder().decode((await reader.read()).value)).toContain('"n":9');
    }
    stop.abort();
  }
});
