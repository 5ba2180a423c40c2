import { randomUUID } from "node:crypto";
import { join } from "node:path";
import type { Store } from "onceflow";
import { PermanentError } from "onceflow/inbox";
import { serveEffects } from "onceflow/testing";
import { afterAll, beforeAll, describe, expect, type TestContext, test } from "vitest";
import { callsIn } from "../../kit/effects.js";
import { poll } from "../../kit/poll.js";
import { letTimePass } from "../../kit/real-time.js";
import { temporaryFolder } from "../../kit/temporary-folder.js";
import { acquire } from "../../servers/acquire.js";
import type { Acquired } from "../../servers/acquire-from.js";
import type { Server } from "../../servers/provider.js";
import { poisonAmongHealthy } from "../poison-messages.js";
import type { Broker, BrokerQueue, ConsumerOptions } from "./broker-queue.js";
import { boundMs, calls, consuming, HandlerGate, nothingLeft, orders, shop, startConsumer } from "./shop.js";

/** A broker that is starting may accept a consumer and never respond: the adapter tries again after 30 s. */
const comesBackMs = 120_000;

/** The tests that every adapter passes with its real broker. `more` adds the tests of one adapter. */
export function brokerSuite(broker: Broker, more: (serverOf: (t: TestContext) => string) => void = () => {}): void {
  describe(broker.title, () => {
    let acquired: Acquired<Server>;
    beforeAll(async () => {
      acquired = (await acquire(broker.server)) as Acquired<Server>;
    }, 700_000);
    afterAll(async () => {
      if (acquired.ok) await acquired.running.stop();
    });

    async function queueOf(t: TestContext, { patienceMs = 1000, name = `onceflow-${randomUUID()}` } = {}): Promise<BrokerQueue> {
      if (!acquired.ok) return t.skip(acquired.reason);
      const queue = await broker.open(acquired.running.url, name, patienceMs);
      t.onTestFinished(() => queue.close());
      return queue;
    }

    test.concurrent("every message is handled once by its id and acknowledged", async (t) => {
      const queue = await queueOf(t);
      const { handle, effects, inboxOn, store } = await shop(t);
      await queue.send(orders(12));
      await consuming(t, queue, { inbox: inboxOn(store), handle });
      await nothingLeft(queue);
      expect(effects.keys()).toHaveLength(12);
      expect(calls(effects)).toEqual(Array(12).fill(1));
    });

    test.concurrent("a copy that arrives while the first is handled is held, and there is one effect", async (t) => {
      const queue = await queueOf(t);
      const { handle, effects, inboxOn, store } = await shop(t);
      const gate = new HandlerGate();
      const short = { leaseMs: 3000, waitMs: 50 };
      const [first, second] = [inboxOn(store, short), inboxOn(store, short)];
      await queue.send(orders(1));
      const slow: ConsumerOptions["handle"] = async (message, context) => {
        await gate.pass();
        return await handle(message, context);
      };
      await consuming(t, queue, { inbox: first, handle: slow }, { silent: true });
      await gate.reached();
      await consuming(t, queue, { inbox: second, handle });
      await queue.lose?.();
      const copies = () => first.metrics.held + second.metrics.held || undefined;
      await poll(boundMs, copies, () => "no copy arrived");
      expect(effects.keys()).toEqual([]);
      gate.open();
      await nothingLeft(queue);
      expect(calls(effects)).toEqual([1]);
      expect(first.metrics.processed + second.metrics.processed).toBe(1);
    });

    test.concurrent("if a process dies after the effect and before the acknowledgement, the message is redelivered and the effect applied once", async (t) => {
      const name = `onceflow-${randomUUID()}`;
      const queue = await queueOf(t, { name });
      const folder = temporaryFolder(t.onTestFinished);
      const provider = await serveEffects({ honoursKeys: true });
      t.onTestFinished(() => provider.close());
      await queue.send(orders(1));
      const where = {
        storeUrl: `sqlite:${join(folder, "inbox.db")}`,
        providerUrl: provider.url,
        server: acquired.ok ? acquired.running.url : "",
      };
      const doomed = startConsumer(t, [broker.name, where.server, name, where.storeUrl, where.providerUrl, "dies"]);
      expect((await doomed.ended).signal).toBe("SIGKILL");
      expect(callsIn(provider.effects)).toBe(1);
      const heir = startConsumer(t, [broker.name, where.server, name, where.storeUrl, where.providerUrl, "lives"]);
      await poll(
        boundMs,
        () => callsIn(provider.effects) > 1 || undefined,
        () => "it did not come again",
      );
      expect((await heir.kill("SIGTERM")).signal).toBe(null);
      await nothingLeft(queue);
      const [key = ""] = provider.effects.keys();
      expect(provider.effects.keys()).toHaveLength(1);
      expect(provider.effects.applied(key)).toBe(1);
      expect(
        provider.effects
          .calls(key)
          .map(({ attempt }) => attempt)
          .slice(0, 2),
      ).toEqual([1, 2]);
    });

    test.concurrent("duplicates in a batch with a key from the payload have one effect", async (t) => {
      const queue = await queueOf(t);
      const { handle, effects, inboxOn, store } = await shop(t);
      const inbox = inboxOn(store, { key: ({ payload }) => (payload as { order: string }).order });
      await queue.send([...orders(3), ...orders(3), ...orders(3)]);
      await consuming(t, queue, { inbox, handle });
      await nothingLeft(queue);
      expect(calls(effects)).toEqual([1, 1, 1]);
      expect(inbox.metrics.processed).toBe(3);
      // There are more duplicates if the machine was slow and the broker redelivered.
      expect(inbox.metrics.duplicates).toBeGreaterThanOrEqual(6);
    });

    test.concurrent("a message whose handler fails is retried after a delay, in the end a dead letter and acknowledged, and other messages are handled", async (t) => {
      const queue = await queueOf(t);
      const { handle, effects, inboxOn, store } = await shop(t);
      const inbox = inboxOn(store, { attemptsMax: 3 });
      const attempts: Record<string, number[]> = {};
      await queue.send(orders(4));
      await consuming(t, queue, {
        inbox,
        handle: async (message, context) => {
          const { order } = message.payload;
          attempts[order] = [...(attempts[order] ?? []), context.attempt];
          if (order === "order-1" && context.attempt < 3) throw new Error("not now");
          if (order === "order-2") throw new Error("never");
          if (order === "order-3") throw new PermanentError("not this one");
          return await handle(message, context);
        },
      });
      await nothingLeft(queue);
      expect(attempts).toEqual({ "order-0": [1], "order-1": [1, 2, 3], "order-2": [1, 2, 3], "order-3": [1] });
      expect(calls(effects)).toEqual([1, 1]);
      expect(inbox.metrics).toMatchObject({ processed: 2, dead: 2 });
      const items = await inbox.deadLetters();
      expect(items.map(({ message }) => message?.payload)).toEqual(expect.arrayContaining([{ order: "order-2" }, { order: "order-3" }]));
    });

    test.concurrent("a body that is not JSON becomes a dead letter with its content, and other messages are handled", async (t) => {
      if (broker.cannot?.undecodable !== undefined) return t.skip(broker.cannot.undecodable);
      const queue = await queueOf(t);
      const { handle, effects, inboxOn, store } = await shop(t);
      const inbox = inboxOn(store);
      await queue.send([{ id: "bad", body: "{order" }, ...orders(1)]);
      await consuming(t, queue, { inbox, handle });
      await nothingLeft(queue);
      expect(calls(effects)).toEqual([1]);
      const items = await inbox.deadLetters();
      expect(items).toMatchObject([{ error: { message: expect.stringContaining("cannot be decoded") }, message: { payload: "{order" } }]);
    });

    test.concurrent("while the store fails nothing is acknowledged and onError is called, and all messages are handled when the store is back", async (t) => {
      const queue = await queueOf(t);
      const { handle, effects, inboxOn, store } = await shop(t);
      let down = true;
      const failing = Object.create(store, {
        commit: { value: (batch: never) => (down ? Promise.reject(new Error("the store is down")) : store.commit(batch)) },
      }) as Store;
      const errors: unknown[] = [];
      await queue.send(orders(3));
      await consuming(t, queue, {
        inbox: inboxOn(failing),
        handle,
        onError: (error, message) => errors.push([String(error), message?.payload]),
      });
      await poll(
        boundMs,
        () => errors.length >= 3 || undefined,
        () => "onError was not called",
      );
      expect(errors[0]).toEqual(["Error: the store is down", { order: expect.stringMatching(/^order-/) }]);
      expect(await queue.left()).toBe(3);
      expect(effects.keys()).toEqual([]);
      down = false;
      await nothingLeft(queue);
      expect(calls(effects)).toEqual([1, 1, 1]);
    });

    test.concurrent("stop() finishes and acknowledges running messages, takes no more, and leaves the rest to other consumers", async (t) => {
      const queue = await queueOf(t);
      const { handle, effects, inboxOn, store } = await shop(t);
      const gate = new HandlerGate();
      let underWay = 0;
      let most = 0;
      await queue.send(orders(8));
      const first = await queue.consume({
        inbox: inboxOn(store),
        concurrency: 2,
        handle: async (message, context) => {
          most = Math.max(most, ++underWay);
          await gate.pass();
          underWay -= 1;
          return await handle(message, context);
        },
      });
      await gate.reached();
      const stopped = first.stop().then(() => "stopped");
      const meanwhile = letTimePass(300, "a stop that does not wait for the handlers would end, and no event says that it did not");
      expect(await Promise.race([stopped, meanwhile.then(() => "under way")])).toBe("under way");
      gate.open();
      await stopped;
      const done = effects.keys().length;
      expect(underWay).toBe(0);
      expect(most).toBeLessThanOrEqual(2);
      expect(done).toBeGreaterThan(0);
      expect(done).toBeLessThan(8);
      await consuming(t, queue, { inbox: inboxOn(store), handle });
      await nothingLeft(queue);
      expect(calls(effects)).toEqual(Array(8).fill(1));
    });

    test.concurrent("stop() returns a message that waits for its next attempt to the broker", async (t) => {
      if (!broker.keeps) return t.skip("with this broker the message waits at the broker");
      const queue = await queueOf(t);
      const { handle, effects, inboxOn, store } = await shop(t);
      const inbox = inboxOn(store, { backoffMs: 300_000 });
      await queue.send(orders(2));
      const first = await queue.consume({
        inbox,
        concurrency: 2,
        handle: (message, context) =>
          message.payload.order === "order-0" ? Promise.reject(new Error("not now")) : handle(message, context),
      });
      const waits = () => (inbox.metrics.retried === 1 && inbox.metrics.processed === 1) || undefined;
      await poll(boundMs, waits, () => "no message waits for its next attempt");
      await first.stop();
      await consuming(t, queue, { inbox: inboxOn(store), handle });
      await nothingLeft(queue);
      expect(calls(effects)).toEqual([1, 1]);
    });

    test.for(broker.poisonings)(
      "a message that kills its process by $death becomes a dead letter, and all others are handled by $consumers consumers",
      {
        timeout: 120_000,
      },
      async (poisoning, t) => {
        const name = `onceflow-${randomUUID()}`;
        const queue = await queueOf(t, { name });
        await poisonAmongHealthy(t, { broker, queue, name, server: acquired.ok ? acquired.running.url : "" }, poisoning);
      },
    );

    more((t) => (acquired.ok ? acquired.running.url : t.skip(acquired.reason)));

    // Not concurrent: the first depends on time, and the second kills the broker.

    test("while a handler takes longer than the broker waits, the adapter extends the message, and no copy arrives", async (t) => {
      if (broker.cannot?.extend !== undefined) return t.skip(broker.cannot.extend);
      const queue = await queueOf(t, { patienceMs: 3000 });
      const { handle, effects, inboxOn, store } = await shop(t);
      const inbox = inboxOn(store);
      const slow: ConsumerOptions["handle"] = async (message, context) => {
        await letTimePass(queue.patienceMs * 1.4, "the patience of a real broker is over");
        return await handle(message, context);
      };
      await queue.send(orders(1));
      await consuming(t, queue, { inbox, handle: slow });
      await nothingLeft(queue);
      expect(calls(effects)).toEqual([1]);
      expect(inbox.metrics).toMatchObject({ processed: 1, held: 0, duplicates: 0 });
    });

    test("if the broker is killed and restarted, every message is handled with one effect", {
      timeout: 180_000,
    }, async (t) => {
      const queue = await queueOf(t);
      const { kill, restart } = acquired.ok ? acquired.running : t.skip(acquired.reason);
      if (kill === undefined || restart === undefined)
        return t.skip("this broker was not started by the tests, or does not keep its messages over a restart");
      const { handle, effects, inboxOn, store } = await shop(t);
      const gate = new HandlerGate();
      await queue.send(orders(20));
      const inbox = inboxOn(store);
      await consuming(t, queue, {
        inbox,
        concurrency: 4,
        onError: () => {},
        handle: async (message, context) => {
          // Some messages are done, some are in progress, and some are still at the broker.
          if (effects.keys().length >= 6) await gate.pass();
          return await handle(message, context);
        },
      });
      await gate.reached();
      await kill();
      gate.open();
      await poll(
        boundMs,
        () => effects.keys().length >= 6 + gate.came || undefined,
        () => "messages in progress did not end",
      );
      await restart();
      if (await queue.isLost?.()) return t.skip("the broker was killed before it had written the queue to disk");
      // The number of messages left is checked later: it is not known while the broker still reads the queue from disk.
      await poll(
        comesBackMs,
        () => effects.keys().length >= 20 || undefined,
        () => `only ${effects.keys().length} messages were handled`,
      );
      await nothingLeft(queue);
      expect(effects.keys()).toHaveLength(20);
      expect(calls(effects)).toEqual(Array(20).fill(1));
    });
  });
}
