import { randomUUID } from "node:crypto";
import { AckPolicy, jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { consume } from "onceflow/inbox/nats";
import { expect, test } from "vitest";
import { poll } from "../kit/poll.js";
import { nats } from "./brokers/nats.js";
import { boundMs, shop } from "./brokers/shop.js";
import { brokerSuite } from "./brokers/suite.js";

brokerSuite(nats, (serverOf) => {
  test.concurrent("the id of a message is its publisher's, otherwise its position in the stream; a consumer with another acknowledgement policy is refused", async (t) => {
    const connection = await connect({ servers: serverOf(t) });
    t.onTestFinished(() => connection.close());
    const name = `onceflow-${randomUUID()}`;
    const manager = await jetstreamManager(connection);
    await manager.streams.add({ name, subjects: [name] });
    await manager.consumers.add(name, { durable_name: "explicit", ack_policy: AckPolicy.Explicit });
    await manager.consumers.add(name, { durable_name: "none", ack_policy: AckPolicy.None });
    const stream = jetstream(connection);
    await stream.publish(name, "1", { msgID: "order-1" });
    await stream.publish(name, "2");
    const { inboxOn, store } = await shop(t);
    const ids: string[] = [];
    const options = { inbox: inboxOn(store), handle: ({ id }: { readonly id: string }) => void ids.push(id) };
    await expect(consume({ ...options, consumer: await stream.consumers.get(name, "none") })).rejects.toThrow("must be explicit");
    const { stop } = await consume({ ...options, consumer: await stream.consumers.get(name, "explicit"), concurrency: 1 });
    t.onTestFinished(stop);
    await poll(
      boundMs,
      () => ids.length >= 2 || undefined,
      () => "not everything was handled",
    );
    expect(ids).toEqual(["order-1", `${name}/2`]);
  });
});
