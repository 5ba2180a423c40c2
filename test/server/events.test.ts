import type { RuntimeEvent } from "onceflow/graph";
import { describe, expect, test, vi } from "vitest";
import { eventStream } from "../../src/server/event-stream.js";
import { problem, scene } from "./scene.js";

interface Told {
  readonly event: string;
  readonly data: Record<string, unknown>;
}

/** Reads until `enough`, and ends the request. */
async function listen(response: Response, enough: (told: readonly Told[]) => boolean): Promise<{ told: Told[]; comments: string[] }> {
  const told: Told[] = [];
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
      else told.push({ event, data: JSON.parse(data ?? "") as Told["data"] });
    }
    if (enough(told)) break;
  }
  await reader.cancel();
  return { told, comments };
}

const order = { orderId: "o-1", amount: 1 };

test("what happens is told as it happens, of one flow or one execution if asked so", async () => {
  const { call, trigger, hold } = await scene();
  const all = await call("/events");
  expect(all.headers.get("content-type")).toBe("text/event-stream");
  const others = await call("/events?flow=others");
  const go = hold("o-1");
  const { executionId } = (await (await trigger(order, "k-1")).json()) as { executionId: string };
  const one = await call(`/events?execution=${executionId}`);
  const { executionId: second } = (await (await trigger({ ...order, orderId: "o-2" })).json()) as { executionId: string };
  const ends = (told: readonly Told[]) => told.filter(({ event }) => event === "ended").length;
  const heard = listen(all, (told) => ends(told) === 2);
  const ofOne = listen(one, (told) => ends(told) === 1);
  go();
  const { told, comments } = await heard;
  expect(comments[0]).toBe(": listening");
  const first = told.filter(({ data }) => data["executionId"] === executionId).map(({ event }) => event);
  expect([first[0], first.at(-1)]).toEqual(["triggered", "ended"]);
  expect(first).toContain("processed");
  expect(told.some(({ data }) => data["executionId"] === second)).toBe(true);
  const about = (await ofOne).told.map(({ data }) => data["executionId"]);
  expect(about.length).toBeGreaterThan(0);
  expect(new Set(about)).toEqual(new Set([executionId]));
  // Of another flow nothing is told: the next heartbeat would be the first thing.
  await others.body?.cancel();
});

test("a listener that is alive hears so, and one that goes makes room", async () => {
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

test("whoever only asks whether there are events does not listen", async () => {
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

  test("costs a bound of memory, and is told what it missed", async () => {
    const { made, tell } = stream(10);
    for (let i = 0; i < 1000; i += 1) tell({ type: "paused", flow: `f-${i}` });
    tell({ type: "paused", flow: "line\nbreak" });
    const { told } = await listen(new Response(made), (all) => all.some(({ event }) => event === "dropped"));
    // The first place is the greeting's.
    expect(told.filter(({ event }) => event === "paused").map(({ data }) => data["flow"])).toEqual(
      [...Array(9).keys()].map((i) => `f-${i}`),
    );
    expect(told.at(-1)).toEqual({ event: "dropped", data: { count: 992 } });
  });

  test("is forgotten once, whether it goes or is sent away", async () => {
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
