import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import { createRuntime } from "onceflow/graph";
import { idempotentFetch } from "onceflow/http";
import { serveEffects } from "onceflow/testing";
import { expect, onTestFinished } from "vitest";
import { takeTurns } from "../kit/heavy.js";
import { poll } from "../servers/process/command.js";
import { freePort } from "../servers/process/free-port.js";
import { durableStores, onStoresInTurn } from "../workflow/scene.js";

takeTurns();

const program = new URL("../../.build/test/server/programs/graph-server.js", import.meta.url);
/** At least: they go on until all kills are done. */
const ordersMin = 20;
const customers = 10;
const copies = 3;
const kills = 3;
/** It is killed whenever so many calls more have reached the other side: in the middle of others. */
const callsPerKill = 3;

onStoresInTurn("a server that is killed again and again", durableStores, (test) => {
  test("takes every trigger once, and charges it once", { timeout: 180_000 }, async ({ scene }) => {
    const { url } = scene;
    const provider = await serveEffects({ honoursKeys: true, latencyMs: () => 5 + Math.random() * 40 });
    onTestFinished(() => provider.close());
    const port = await freePort();
    let child: ChildProcess;
    const startServer = async () => {
      child = fork(program, [url, provider.url, String(port)], { execArgv: [], stdio: ["ignore", "ignore", "inherit", "ipc"] });
      await once(child, "message");
    };
    const kill = async () => {
      const gone = once(child, "exit");
      child.kill("SIGKILL");
      await gone;
    };
    await startServer();
    onTestFinished(kill);

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
    const calls = () => provider.effects.keys().reduce((sum, key) => sum + provider.effects.rawCalls(key), 0);
    const killer = (async () => {
      for (let i = 0; i < kills; i += 1) {
        for (const until = calls() + callsPerKill; calls() < until && killing; ) await delay(2);
        await kill();
        await startServer();
      }
      killing = false;
    })();
    await Promise.all([killer, ...shopping]).finally(() => {
      killing = false;
    });

    // One execution per key, whoever asked for it and whenever.
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
