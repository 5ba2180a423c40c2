import { randomUUID } from "node:crypto";
import { Redis } from "ioredis";
import { consume } from "onceflow/inbox/redis-streams";
import { expect, test } from "vitest";
import { poll } from "../kit/poll.js";
import { redisStreams } from "./brokers/redis-streams.js";
import { boundMs, shop } from "./brokers/shop.js";
import { brokerSuite } from "./brokers/suite.js";

brokerSuite(redisStreams("redis"));
brokerSuite(redisStreams("ioredis"), (serverOf) => {
  test.concurrent("without a field option the payload has all fields, an existing group is joined, and a deleted entry is skipped", async (t) => {
    const client = new Redis(serverOf(t));
    t.onTestFinished(() => void client.disconnect());
    const stream = `onceflow-${randomUUID()}`;
    const gone = (await client.xadd(stream, "*", "order", "gone")) ?? "";
    await client.xgroup("CREATE", stream, "group", "0");
    await client.xreadgroup("GROUP", "group", "died", "STREAMS", stream, ">");
    await client.xdel(stream, gone);
    await client.xadd(stream, "*", "order", "order-1", "__proto__", "text");
    const { inboxOn, store } = await shop(t);
    const seen: unknown[] = [];
    const handle = ({ payload }: { readonly payload: unknown }) => void seen.push(payload);
    const { stop } = await consume({
      client,
      stream,
      group: "group",
      claimAfterMs: 1000,
      inbox: inboxOn(store),
      handle,
      onError: () => {},
    });
    t.onTestFinished(stop);
    const nonePending = async () => ((await client.xpending(stream, "group")) as [number])[0] === 0 || undefined;
    await poll(
      boundMs,
      async () => (seen.length > 0 ? await nonePending() : undefined),
      () => "not all messages were acknowledged",
    );
    // A lost group is created again and reads from the beginning: no message is handled twice.
    await client.xgroup("DESTROY", stream, "group");
    await client.xadd(stream, "*", "order", "order-2");
    await poll(
      boundMs,
      () => seen.length > 1 || undefined,
      () => "the group was not made again",
    );
    await poll(boundMs, nonePending, () => "not all messages were acknowledged");
    expect(seen).toHaveLength(2);
    expect(Object.entries(seen[0] as object)).toEqual([
      ["order", "order-1"],
      ["__proto__", "text"],
    ]);
  });
});
