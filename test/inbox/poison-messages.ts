import { join } from "node:path";
import { open } from "onceflow";
import { createInbox } from "onceflow/inbox";
import { serveEffects } from "onceflow/testing";
import { expect, type TestContext } from "vitest";
import { poll } from "../kit/poll.js";
import { bundleOf } from "../kit/program.js";
import { Supervised } from "../kit/supervised.js";
import { temporaryFolder } from "../kit/temporary-folder.js";
import type { Broker, BrokerQueue, Poisoning } from "./brokers/broker-queue.js";
import { calls, orders } from "./brokers/shop.js";
import { poison, poisonOptions } from "./programs/poison-consumer.js";

const program = bundleOf("inbox/programs/poison-consumer");
const boundMs = 110_000;
const healthy = 12;

interface Where {
  readonly broker: Broker;
  readonly queue: BrokerQueue;
  readonly server: string;
  readonly name: string;
}

/** Sends one message that kills its process among healthy ones. Expects that the healthy ones are handled and the other is a dead letter. */
export async function poisonAmongHealthy(t: TestContext, { broker, queue, server, name }: Where, { death, consumers }: Poisoning) {
  const folder = temporaryFolder(t.onTestFinished);
  const storeUrl = `sqlite:${join(folder, "inbox.db")}`;
  const provider = await serveEffects({ honoursKeys: true, latencyMs: () => 20 });
  t.onTestFinished(() => provider.close());
  const store = await open(storeUrl);
  t.onTestFinished(() => store.close());
  const inbox = createInbox(store, poisonOptions());
  const messages = orders(healthy);
  await queue.send([...messages.slice(0, 4), { id: poison, body: JSON.stringify({ order: poison }) }, ...messages.slice(4)]);
  const supervised = new Supervised(t, { program, args: [broker.name, server, name, storeUrl, provider.url, death], processes: consumers });
  const { effects } = provider;
  let [letters, left] = [0, 0];
  const isOver = async () => {
    letters = (await inbox.deadLetters()).length;
    left = (await store.list({ scope: "inbox shop", limit: 100 })).filter(({ record }) => record.state !== "completed").length;
    expect(letters, sofar()).toBeLessThanOrEqual(1);
    return (letters > 0 && letters === left && effects.keys().length === healthy) || undefined;
  };
  const sofar = () =>
    `${supervised.deaths} deaths, ${effects.keys().length} of ${healthy} messages handled, ${letters} dead letters, ${left} not completed`;
  await poll(boundMs, isOver, sofar);
  const dead = await inbox.deadLetters();
  expect(dead.map(({ message, error }) => [message?.payload, (error as { code?: string }).code])).toEqual([
    [{ order: poison }, "ATTEMPTS_EXHAUSTED"],
  ]);
  expect(effects.keys().map((key) => effects.applied(key))).toEqual(Array(healthy).fill(1));
  expect(calls(effects).length).toBe(healthy);
  // Two deaths while it is handled with others, then `attemptsMax` while it is handled alone.
  expect(supervised.deaths).toBeGreaterThanOrEqual(4);
  await poll(
    boundMs,
    async () => (await queue.left()) === 0 || undefined,
    () => "the broker has messages left",
  );
  console.log(`${broker.title}, ${death}, ${consumers} consumers: ${sofar()}`);
}
