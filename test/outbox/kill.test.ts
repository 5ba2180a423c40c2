import { open, type Store } from "onceflow";
import { createOutbox, type Outbox } from "onceflow/outbox";
import { type EffectServer, serveEffects } from "onceflow/testing";
import { describe, expect, type TestContext, test } from "vitest";
import { Program } from "../kit/program.js";
import { until } from "../kit/until.js";
import { messageId, type OutboxDoom, outboxOptions, publisherTo } from "./programs/worker.js";
import { places } from "./scene.js";

type Doomed = Omit<OutboxDoom, "url" | "brokerUrl">;

interface Death extends Doomed {
  /** The state before: the message was added, or it was added and is a dead letter. */
  readonly given?: "added" | "dead";
  /** The state of the message after the process has died. */
  readonly left: "absent" | "due" | "publishing" | "dead";
  /** The numbers of the attempts that reached the broker, before the death and after it. */
  readonly attempts: readonly number[];
}

/** The state after a process dies at each point of the outbox. */
const deaths: readonly Death[] = [
  { act: "addInTransaction", dieAt: "before add", left: "absent", attempts: [] },
  { act: "addInTransaction", dieAt: "after add", left: "absent", attempts: [] },
  { act: "addInTransaction", dieAt: "after commit", left: "due", attempts: [1] },
  { act: "add", dieAt: "before send", left: "absent", attempts: [] },
  { act: "add", dieAt: "after send", left: "due", attempts: [1] },
  { act: "relay", given: "added", dieAt: "after claim", left: "publishing", attempts: [2] },
  { act: "relay", given: "added", dieAt: "before publish", left: "publishing", attempts: [2] },
  { act: "relay", given: "added", dieAt: "after publish", left: "publishing", attempts: [1, 2] },
  { act: "relay", given: "added", dieAt: "before settle", left: "publishing", attempts: [1, 2] },
  { act: "relay", given: "added", dieAt: "after settle", left: "absent", attempts: [1] },
  { act: "relay", given: "added", broker: "refuses", dieAt: "before settle", left: "publishing", attempts: [2] },
  { act: "relay", given: "added", broker: "refuses", dieAt: "after settle", left: "due", attempts: [2] },
  { act: "redrive", given: "dead", dieAt: "before redrive", left: "dead", attempts: [] },
  { act: "redrive", given: "dead", dieAt: "after redrive", left: "due", attempts: [3] },
  { act: "discard", given: "dead", dieAt: "before discard", left: "dead", attempts: [] },
  { act: "discard", given: "dead", dieAt: "after discard", left: "absent", attempts: [] },
];

interface Scene {
  readonly url: string;
  readonly broker: EffectServer;
  readonly store: Store;
  readonly outbox: Outbox;
}

async function sceneOf(context: TestContext, place: string): Promise<Scene> {
  const at = await (places[place] as (typeof places)[string])();
  if (typeof at === "string") return context.skip(at);
  context.onTestFinished(() => at.drop());
  const broker = await serveEffects({ honoursKeys: true });
  context.onTestFinished(() => broker.close());
  const store = await open(at.url, { stallMsMax: 0 });
  context.onTestFinished(() => store.close());
  return { url: at.url, broker, store, outbox: createOutbox(store, outboxOptions) };
}

function start({ url, broker }: Scene, doom: Doomed): Program {
  return new Program("outbox/programs/worker", [JSON.stringify({ url, brokerUrl: broker.url, ...doom })], { onEnd: () => {} });
}

async function isOver(outbox: Outbox): Promise<boolean> {
  const { due, waiting, publishing } = await outbox.pending();
  return due + waiting + publishing === 0;
}

async function prepare({ outbox }: Scene, given: Death["given"]): Promise<void> {
  if (given === undefined) return;
  await outbox.add(undefined, { id: messageId, key: "k", payload: { id: messageId } });
  if (given === "added") return;
  const relay = outbox.relay(() => {
    throw new Error("refused");
  });
  await until("1 of the messages is dead", async () => (await outbox.pending()).dead === 1);
  await relay.stop();
}

async function expectRecovery(scene: Scene, { given, left, attempts, ...doom }: Death): Promise<void> {
  const { outbox, broker } = scene;
  await prepare(scene, given);
  const { signal, stderr } = await start(scene, doom).ended;
  expect(signal, stderr).toBe("SIGKILL");

  const pending = await outbox.pending();
  const expected = { absent: {}, due: { due: 1 }, publishing: { publishing: 1 }, dead: { dead: 1 } }[left];
  expect(pending).toEqual({ due: 0, waiting: 0, publishing: 0, dead: 0, ...expected });

  // The next message of the key waits for this one, and is published after it.
  await outbox.add(undefined, { id: "next", key: "k", payload: null });
  const relay = outbox.relay(publisherTo(broker.url), { pollMs: 50 });
  if (left === "dead") {
    await until("1 of the messages is waiting", async () => (await outbox.pending()).waiting === 1);
    expect(broker.effects.keys()).toEqual([]);
    expect(await outbox.discard(messageId)).toBe(true);
  }
  await until("all messages are published or dead", () => isOver(outbox));
  await relay.stop();
  expect(broker.effects.calls(messageId).map(({ attempt }) => attempt)).toEqual(attempts);
  expect(broker.effects.keys()).toEqual(attempts.length > 0 ? [messageId, "next"] : ["next"]);
  // The broker recognises copies by the message id.
  if (attempts.length > 0) expect(broker.effects.applied(messageId)).toBe(1);
  expect(await outbox.deadLetters()).toEqual([]);
}

describe.concurrent.each(["SQLite", "PostgreSQL"])("an outbox on %s whose process is killed", (place) => {
  // Both stores write the same rows at the same points, so a third of the points is enough for the second one.
  for (const death of deaths.filter((_, i) => place === "SQLite" || i % 3 === 1)) {
    const { act, broker, dieAt, left } = death;
    test(`${act}${broker ? `, and the broker ${broker},` : ""} "${dieAt}": the message is ${left}, and nothing is lost or applied twice`, async (context) => {
      await expectRecovery(await sceneOf(context, place), death);
    });
  }

  test("relays are killed one after the other: every message is published, in the order of its key", async (context) => {
    const scene = await sceneOf(context, place);
    const { store, broker } = scene;
    const outbox = createOutbox(store, { ...outboxOptions, attemptsMax: "unlimited" });
    const keys = ["a", "b", "c"];
    const count = 8;
    const ids = (key: string) => Array.from({ length: count }, (_, i) => `${key}-${i}`);
    for (let i = 0; i < count; i++) await Promise.all(keys.map((key) => outbox.add(undefined, { id: `${key}-${i}`, key, payload: i })));
    for (const kills of [8, 16]) {
      const program = start(scene, { act: "relay", attemptsMax: "unlimited" });
      await until("more messages are published", () => broker.effects.keys().length >= kills);
      await program.kill();
    }
    const relay = outbox.relay(publisherTo(broker.url), { pollMs: 50 });
    await until("all messages are published or dead", () => isOver(outbox));
    await relay.stop();
    for (const key of keys) expect(broker.effects.keys().filter((id) => id.startsWith(key))).toEqual(ids(key));
    for (const id of broker.effects.keys()) {
      const attempts = broker.effects.calls(id).map(({ attempt }) => attempt);
      expect(new Set(attempts).size, `${id}: ${attempts}`).toBe(attempts.length);
    }
    expect(await outbox.deadLetters()).toEqual([]);
  });
});
