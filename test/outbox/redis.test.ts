import { randomUUID } from "node:crypto";
import { open } from "onceflow";
import { createOutbox } from "onceflow/outbox";
import { createClient } from "redis";
import { expect, inject, test } from "vitest";
import { until } from "../kit/until.js";
import { places } from "./scene.js";

const server = inject("redis");

test("publishing to a Redis stream over a connection that breaks: every message arrives, in order per key, and copies have the same id", async (context) => {
  if (!server.ok) return context.skip(server.reason);
  const at = await (places.SQLite as (typeof places)[string])();
  if (typeof at === "string") return context.skip(at);
  context.onTestFinished(() => at.drop());
  const store = await open(at.url);
  context.onTestFinished(() => store.close());
  const stream = `outbox-${randomUUID()}`;
  const reader = await createClient({ url: server.url }).connect();
  context.onTestFinished(async () => {
    await reader.del(stream);
    reader.destroy();
  });

  const outbox = createOutbox<{ seq: number }>(store, { name: "orders", backoffMs: 1, backoffMsMax: 20 });
  const keys = ["a", "b", "c"];
  const count = 10;
  for (let seq = 0; seq < count; seq++)
    await Promise.all(keys.map((key) => outbox.add(undefined, { id: `${key}-${seq}`, key, payload: { seq } })));

  let redis = await createClient({ url: server.url }).connect();
  let calls = 0;
  /** Replaces the connection. A command in progress may have been executed, but its reply is lost. */
  const cut = async () => {
    const old = redis;
    redis = await createClient({ url: server.url }).connect();
    old.destroy();
  };
  const publish = async ({ id, payload }: { readonly id: string; readonly payload: { readonly seq: number } }) => {
    calls += 1;
    const sent = redis.xAdd(stream, "*", { id, payload: JSON.stringify(payload) });
    await Promise.all([sent, calls % 6 === 0 ? cut() : undefined]);
    if (calls % 5 === 0) throw new Error("no reply");
  };
  const relay = outbox.relay(publish, { pollMs: 100, concurrency: 3 });
  await until("nothing is pending", async () => Object.values(await outbox.pending()).every((left) => left === 0));
  await relay.stop();
  redis.destroy();

  const ids = ((await reader.xRange(stream, "-", "+")) ?? []).map(({ message }) => message.id as string);
  for (const key of keys)
    expect([...new Set(ids)].filter((id) => id.startsWith(key))).toEqual(Array.from({ length: count }, (_, seq) => `${key}-${seq}`));
  expect(outbox.metrics).toMatchObject({ published: keys.length * count, dead: 0 });
  expect(outbox.metrics.retried).toBeGreaterThan(0);
});
