import type { RuntimeEvent } from "onceflow/graph";
import { describe, expect, test, vi } from "vitest";
import { eventStream } from "../../src/server/event-stream.js";
import { problem, scene } from "./scene.js";

interface SentEvent {
  readonly event: string;
  readonly data: Record<string, unknown>;
}

/** Reads until `enough`, and ends the request. */
async function listen(
  response: Response,
  enough: (received: readonly SentEvent[]) => boolean,
): Promise<{ received: SentEvent[]; comments: string[] }> {
  const received: SentEvent[] = [];
  const comments: string[] = [];
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  let text = "";
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    text += new TextDecoder().decode(next.value);
    const blocks = text.split("\n\n");
    text = blocks.pop() ?? "";
    for (const block of blocks) {
      const [, event, data] = /^event: (\w+)\ndata: (.*)$/.exec(block) ?? [];
      if (event === undefined) comments.push(block);
      else received.push({ event, data: JSON.parse(data ?? "") as SentEvent["data"] });
    }
    if (enough(received)) break;
  }
  await reader.cancel();
  return { received, comments };
}

const order = { orderId: "o-1", amount: 1 };

test("events are sent as they happen, and can be limited to one flow or one execution", async () => {
  const { call, trigger, hold } = await scene();
  const all = await call("/events");
  expect(all.headers.get("content-type")).toBe("text/event-stream");
  const others = await call("/events?flow=others");
  const go = hold("o-1");
  const { executionId } = (await (await trigger(order, "k-1")).json()) as { executionId: string };
  const one = await call(`/events?execution=${executionId}`);
  const { executionId: second } = (await (await trigger({ ...order, orderId: "o-2" })).json()) as { executionId: string };
  const ends = (received: readonly SentEvent[]) => received.filter(({ event }) => event === "ended").length;
  const heard = listen(all, (received) => ends(received) === 2);
  const ofOne = listen(one, (received) => ends(received) === 1);
  go();
  const { received, comments } = await heard;
  expect(comments[0]).toBe(": listening");
  const first = received.filter(({ data }) => data["executionId"] === executionId).map(({ event }) => event);
  expect([first[0], first.at(-1)]).toEqual(["triggered", "ended"]);
  expect(first).toContain("processed");
  expect(received.some(({ data }) => data["executionId"] === second)).toBe(true);
  const about = (await ofOne).received.map(({ data }) => data["executionId"]);
  expect(about.length).toBeGreaterThan(0);
  expect(new Set(about)).toEqual(new Set([executionId]));
  // A listener of another flow receives none of these: it would first receive the next heartbeat.
  await others.body?.cancel();
});

test("a listener receives heartbeats, and one that disconnects frees its place", async () => {
  const { call } = await scene({ listenersMax: 1, heartbeatMs: 20 });
  const first = await call("/events?flow=none");
  expect(await problem(await call("/events"))).toMatchObject({ status: 503, name: "server:too-many-listeners" });
  const reader = (first.body as ReadableStream<Uint8Array>).getReader();
  let text = "";
  while (!text.includes(": still here")) text += new TextDecoder().decode((await reader.read()).value);
  await reader.cancel();
  const again = await vi.waitUntil(
    async () => {
      const response = await call("/events");
      return response.ok && response;
    },
    { timeout: 20_000 },
  );
  await again.body?.cancel();
});

test("a HEAD request does not count as a listener", async () => {
  const { call } = await scene({ listenersMax: 1 });
  for (let i = 0; i < 3; i += 1) {
    const asked = await call("/events", { method: "HEAD" });
    expect([asked.status, asked.headers.get("content-type")]).toEqual([200, "text/event-stream"]);
  }
  const listening = await call("/events");
  expect(listening.status).toBe(200);
  await listening.body?.cancel();
});

describe("a slow listener", () => {
  function stream(eventsMax: number) {
    let tell = (_event: RuntimeEvent): void => {};
    const counts = { forgotten: 0, ended: 0 };
    const stop = new AbortController();
    const made = eventStream({
      listen: (listener) => {
        tell = listener;
        return () => {
          counts.forgotten += 1;
        };
      },
      eventsMax,
      heartbeatMs: 60_000,
      signal: stop.signal,
      ended: () => {
        counts.ended += 1;
      },
    });
    return { made, counts, stop, tell: (event: RuntimeEvent) => tell(event) };
  }

  test("uses bounded memory, and receives the number of events that it missed", async () => {
    const { made, tell } = stream(10);
    for (let i = 0; i < 1000; i += 1) tell({ type: "paused", flow: `f-${i}` });
    tell({ type: "paused", flow: "line\nbreak" });
    const { received } = await listen(new Response(made), (all) => all.some(({ event }) => event === "dropped"));
    // The first place has the greeting.
    expect(received.filter(({ event }) => event === "paused").map(({ data }) => data["flow"])).toEqual(
      [...Array(9).keys()].map((i) => `f-${i}`),
    );
    expect(received.at(-1)).toEqual({ event: "dropped", data: { count: 992 } });
  });

  test("is removed once, whether it disconnects or the server ends it", async () => {
    const gone = stream(10);
    const reader = gone.made.getReader();
    await reader.read();
    await reader.cancel();
    gone.stop.abort();
    expect(gone.counts).toEqual({ forgotten: 1, ended: 1 });
    const away = stream(10);
    const waiting = away.made.getReader();
    await waiting.read();
    const next = waiting.read();
    away.stop.abort();
    expect(await next).toEqual({ done: true, value: undefined });
    expect(away.counts).toEqual({ forgotten: 1, ended: 1 });
  });
});
