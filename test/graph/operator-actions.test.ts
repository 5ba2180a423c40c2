import type { Store } from "onceflow";
import { createRuntime, NodeError, type OperatorResult, type Runtime } from "onceflow/graph";
import { createOutbox } from "onceflow/outbox";
import { readOperatorLog } from "onceflow/workflow/api";
import { expect } from "vitest";
import { dyingStore } from "../kit/dying-store.js";
import { sample } from "../kit/effort.js";
import { durableStores, fullStores, onStores, type Scene } from "../kit/scene.js";
import { until } from "../kit/until.js";

const text = `
flowdsl: "1.0"
info: { title: Orders, version: "1.0.0" }
nodes:
  Start: { operationId: start, kind: source }
  Take: { operationId: take, kind: action }
edges:
  - { from: Start, to: Take, delivery: { mode: durable } }
`;
const documents = [{ text }];

/** A flow whose node fails until the bank is up. */
class Shop {
  isDown = true;
  calls = 0;
  readonly flow = "orders";
  readonly runtime: Promise<Runtime>;

  constructor(scene: Scene, store: Store) {
    const take = () => {
      this.calls += 1;
      if (this.isDown) throw new NodeError("PERMANENT", "the bank is down");
    };
    this.runtime = createRuntime({ store, documents, nodes: { take } });
    scene.onEnd(async () => await (await this.runtime).stop());
  }

  async letter(): Promise<string> {
    const runtime = await this.runtime;
    await runtime.trigger(this.flow, undefined, { id: "o-1" });
    await until("there is a dead letter", async () => (await runtime.deadLetters({ flow: this.flow })).length > 0);
    return (await runtime.deadLetters({ flow: this.flow }))[0]?.id ?? "";
  }
}

type Act = (at: Store) => Promise<OperatorResult | false>;

/** A runtime that only acts, as that of the command line. */
async function client<T>(store: Store, act: (runtime: Runtime) => Promise<T>): Promise<T> {
  return await act(await createRuntime({ store, documents: [], work: false }));
}

/** Does the action on a store whose process dies before or after the write, and sends it again. Twice: the second repetition finds the first answer, too. */
async function crossed(scene: Scene, when: "before" | "after", act: Act): Promise<void> {
  const dying = dyingStore(await scene.open(), when, { packetAct: () => true });
  void act(dying.store).catch(() => {});
  await dying.died;
  const store = await scene.open();
  expect(await act(store)).toMatchObject({ actionId: "a-1", repeated: when === "after", dryRun: false });
  expect(await act(store)).toMatchObject({ repeated: true });
  expect(await readOperatorLog({ store })).toMatchObject([{ actionId: "a-1", actor: "ann", reason: "test" }]);
}

const by = { actor: "ann", reason: "test", actionId: "a-1" } as const;

const actions: Readonly<Record<string, (scene: Scene, when: "before" | "after") => Promise<void>>> = {
  "retry of a dead letter: the node is called once more": async (scene, when) => {
    const shop = new Shop(scene, await scene.open());
    const id = await shop.letter();
    shop.isDown = false;
    await crossed(scene, when, (at) => client(at, (runtime) => runtime.retry(id, by)));
    await until("the node was called again", async () => shop.calls === 2);
    await (await shop.runtime).idle();
    expect(shop.calls).toBe(2);
  },

  "retry of a dead letter that dies again: not retried by the repetition": async (scene, when) => {
    const shop = new Shop(scene, await scene.open());
    const id = await shop.letter();
    await crossed(scene, when, (at) => client(at, (runtime) => runtime.retry(id, by)));
    const runtime = await shop.runtime;
    await until("it is dead again", async () => (await runtime.deadLetter(id))?.attempts === 2);
    await runtime.idle();
    expect(shop.calls).toBe(2);
  },

  "discard of a dead letter: it is gone": async (scene, when) => {
    const shop = new Shop(scene, await scene.open());
    const id = await shop.letter();
    await crossed(scene, when, (at) => client(at, (runtime) => runtime.discard(id, by)));
    expect(await (await shop.runtime).deadLetters({ flow: shop.flow })).toEqual([]);
    expect(shop.calls).toBe(1);
  },

  "pause of a flow: a repetition does not pause it again": async (scene, when) => {
    const shop = new Shop(scene, await scene.open());
    const runtime = await shop.runtime;
    const pause: Act = async (at) => {
      return await (await createRuntime({ store: at, documents, nodes: { take: () => {} }, work: false })).pause(shop.flow, by);
    };
    await crossed(scene, when, pause);
    const store = await scene.open();
    expect(await store.packets.flowState(shop.flow)).toBe("paused");
    await runtime.resume(shop.flow);
    expect(await pause(store)).toMatchObject({ repeated: true });
    expect(await store.packets.flowState(shop.flow)).toBe("active");
  },

  "retry of a message of an outbox: published once": async (scene, when) => {
    const store = await scene.open();
    const name = scene.name("mails");
    const outbox = createOutbox(store, { name, attemptsMax: 1 });
    let [isDown, calls] = [true, 0];
    const relay = outbox.relay(async () => {
      calls += 1;
      if (isDown) throw new Error("the mailbox is full");
    });
    scene.onEnd(() => relay.stop());
    await outbox.add(undefined, { id: "m-1", payload: {} });
    await until("the message is dead", async () => (await outbox.deadLetters()).length === 1);
    isDown = false;
    await crossed(scene, when, (at) => createOutbox(at, { name }).retry("m-1", by));
    await until("the message was published", async () => calls === 2);
    expect((await outbox.pending()).dead).toBe(0);
    expect((await readOperatorLog({ store }))[0]?.runId).toBe(`outbox:${name}/m-1`);
  },
};

for (const when of ["before", "after"] as const)
  onStores(
    `an operator's process dies ${when} the write of its action on packets, and the action is sent again`,
    fullStores,
    (test, on) => {
      // The emulator is slow.
      const names = Object.keys(actions);
      for (const name of on === "mongodb" ? sample(names, 2) : names) test(name, async ({ scene }) => await actions[name]?.(scene, when));
    },
  );

onStores("actions on dead letters and flows", ["memory"], (test) => {
  test("a dry run and a refusal change nothing and write no entry", async ({ scene }) => {
    const store = await scene.open();
    const shop = new Shop(scene, store);
    const id = await shop.letter();
    const runtime = await shop.runtime;
    const dry = { actor: "ann", reason: "test", dryRun: true };
    for (const act of [runtime.retry(id, dry), runtime.discard(id, dry), runtime.pause(shop.flow, dry)])
      expect(await act).toMatchObject({ repeated: false, dryRun: true });
    expect(await runtime.retry("pk_zzzz", by)).toBe(false);
    expect(await runtime.discard("pk_zzzz", { ...by, dryRun: true })).toBe(false);
    const wrong: readonly (readonly [object, RegExp])[] = [
      [{ actor: "ann" }, /reason: is missing/],
      [{ ...by, actr: "ann" }, /actr/],
      [{ ...by, actionId: "" }, /actionId/],
      [{ ...by, dryRun: "yes" }, /dryRun: must be true or false/],
      [{ ...by, reason: "a\0b" }, /reason: has a NUL/],
    ];
    for (const [options, message] of wrong) await expect(runtime.discard(id, options as never)).rejects.toThrow(message);
    expect(await runtime.flows()).toMatchObject([{ state: "active" }]);
    expect(await runtime.deadLetter(id)).toMatchObject({ attempts: 1 });
    expect(await readOperatorLog({ store })).toEqual([]);
  });

  test("all messages of an outbox are retried, each with an entry, and none a second time by a repetition", async ({ scene }) => {
    const store = await scene.open();
    const outbox = createOutbox(store, { name: "mails", attemptsMax: 1 });
    let calls = 0;
    const relay = outbox.relay(async () => {
      calls += 1;
      throw new Error("the mailbox is full");
    });
    scene.onEnd(() => relay.stop());
    const dead = (published: number) =>
      until(`${published} attempts failed`, async () => calls === published && (await outbox.pending()).dead === 3);
    for (const id of ["m-1", "m-2", "m-3"]) await outbox.add(undefined, { id, payload: {} });
    await dead(3);
    await expect(outbox.retryAll({ actor: "ann" } as never)).rejects.toThrow(/reason: is missing/);
    expect(await outbox.retryAll({ ...by, dryRun: true })).toBe(3);
    expect(await outbox.retryAll(by)).toBe(3);
    await dead(6);
    expect(await outbox.retryAll(by)).toBe(3);
    expect((await outbox.pending()).dead).toBe(3);
    const log = await readOperatorLog({ store });
    expect(log.map(({ runId }) => runId).sort()).toEqual(["m-1", "m-2", "m-3"].map((id) => `outbox:mails/${id}`));
  });

  test("an action id belongs to one action", async ({ scene }) => {
    const store = await scene.open();
    const shop = new Shop(scene, store);
    const id = await shop.letter();
    const runtime = await shop.runtime;
    await runtime.pause(shop.flow, by);
    const used = /actionId: was used before, for "pauseFlow" of "flow:/;
    await expect(runtime.retry(id, by)).rejects.toThrow(used);
    await expect(runtime.resume(shop.flow, by)).rejects.toThrow(used);
    expect(await runtime.deadLetter(id)).toMatchObject({ attempts: 1 });
  });
});

onStores("the change and its entry are one commit", durableStores, (test) => {
  test("an entry that cannot be written leaves the dead letter and the flow as they are", async ({ scene }) => {
    const store = await scene.open();
    const shop = new Shop(scene, store);
    await shop.letter();
    const [{ no } = { no: 0 }] = await store.packets.deadLetters({ limit: 1 });
    const log = { id: "a-1", actor: "ann", action: "test", subject: "test", reason: "a\0b", detail: null };
    const changes = [
      { kind: "retry", letters: [{ no }] },
      { kind: "discard", letters: [{ no }] },
      { kind: "flow", flow: shop.flow, state: "paused" },
    ] as const;
    for (const change of changes) await expect(store.packets.act({ log, change })).rejects.toThrow();
    expect((await store.packets.packet(no))?.dead).not.toBeNull();
    expect(await store.packets.flowState(shop.flow)).toBe("active");
    expect(await store.runs.log({ limit: 10 })).toEqual([]);
  });
});
