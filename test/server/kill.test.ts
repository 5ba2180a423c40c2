import { createRuntime } from "onceflow/graph";
import { idempotentFetch } from "onceflow/http";
import { serveEffects } from "onceflow/testing";
import { expect, onTestFinished } from "vitest";
import { callsIn } from "../kit/effects.js";
import { takeTurns } from "../kit/heavy.js";
import { poll } from "../kit/poll.js";
import { Program } from "../kit/program.js";
import { durableStores, onStoresInTurn } from "../kit/scene.js";
import { until } from "../kit/until.js";
import { freePort } from "../servers/process/free-port.js";

takeTurns();

/** Minimum number: the clients continue until all kills are done. */
const ordersMin = 20;
const customers = 10;
const copies = 3;
const kills = 3;
/** The server is killed after this many new calls have reached the provider, so in the middle of other calls. */
const callsPerKill = 3;

onStoresInTurn("a server that is killed repeatedly", durableStores, (test) => {
  test("accepts every trigger once and charges it once", async ({ scene }) => {
    const { url } = scene;
    const provider = await serveEffects({ honoursKeys: true, latencyMs: () => 5 + Math.random() * 40 });
    onTestFinished(() => provider.close());
    const port = await freePort();
    const startServer = async () => {
      const server = new Program("server/programs/graph-server", [url, provider.url, String(port)], { onEnd: onTestFinished });
      await server.next();
      return server;
    };
    let server = await startServer();

    const answers = new Map<string, Set<string>>();
    const trigger = async (order: string) => {
      const init = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ order }) };
      const options = { key: order, triesMax: 500, backoffMs: 20, waitMsMax: 500, tryMs: 10_000 };
      const response = await idempotentFetch(`http://127.0.0.1:${port}/flows/orders/trigger`, init, options);
      expect([200, 202]).toContain(response.status);
      const { executionId } = (await response.json()) as { executionId: string };
      answers.set(order, (answers.get(order) ?? new Set()).add(executionId));
    };
    const names: string[] = [];
    let killing = true;
    const shopping = Array.from({ length: customers }, async () => {
      while (killing || names.length < ordersMin) {
        const order = `order-${names.length}`;
        names.push(order);
        await Promise.all(Array.from({ length: copies }, () => trigger(order)));
      }
    });
    const calls = () => callsIn(provider.effects);
    const killer = (async () => {
      for (let i = 0; i < kills; i += 1) {
        const next = calls() + callsPerKill;
        await until("more calls have come", () => calls() >= next || !killing, 60_000);
        await server.kill();
        server = await startServer();
      }
      killing = false;
    })();
    await Promise.all([killer, ...shopping]).finally(() => {
      killing = false;
    });

    // One execution per key, for all clients and at all times.
    expect([...answers.values()].map((set) => set.size)).toEqual(names.map(() => 1));
    const store = await scene.open();
    const looking = await createRuntime({ store, documents: [], work: false });
    const all = async () => {
      const executions = await looking.executions({ limit: 1000 });
      return executions.every(({ status }) => status === "completed") ? executions : undefined;
    };
    const executions = await poll(60_000, all, () => "not all of them end");
    expect(executions.map(({ key }) => key).sort()).toEqual([...names].sort());
    expect(provider.effects.keys().map((key) => provider.effects.applied(key))).toEqual(names.map(() => 1));
  });
});
