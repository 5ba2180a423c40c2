import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import * as restate from "@restatedev/restate-sdk";
import * as clients from "@restatedev/restate-sdk-clients";
import { serve } from "./serve.mjs";
import { startServer } from "./server.mjs";

const startMsMax = 60_000;

/** See Contender in bench/workflow/contender.ts. The server is a separate process; services and callers run in this one. */
export async function open({ folder, hooks }) {
  const thread = new Worker(new URL("./three-steps.mjs", import.meta.url));
  const [threeSteps] = await once(thread, "message");
  const rest = await serve([longRuns(hooks), sleepers(hooks)]);

  const server = await startServer({ folder, partitions: 4 });
  await poll(async () => (await fetch(`${server.admin}/health`)).ok);
  for (const uri of [threeSteps, rest]) await poll(() => register(server, uri));
  const client = clients.connect({ url: server.ingress });
  const bench = client.serviceClient({ name: "bench" });
  // A registered service is not ready yet: the first call waits until its partition has a leader.
  await poll(async () => (await bench.threeSteps(0)) === 3);
  return {
    serverPid: server.pid,
    run: () => bench.threeSteps(1),
    longRun: (steps) => client.serviceClient({ name: "longRuns" }).manySteps(steps),
    sleep: (index, dueAt) => client.serviceSendClient({ name: "sleepers" }).sleeper({ index, dueAt }),
    async close() {
      await server.stop();
      await thread.terminate();
    },
  };
}

function longRuns(hooks) {
  const manySteps = async (ctx, steps) => {
    let n = 0;
    for (let i = 0; i < steps; i++) {
      const before = n;
      n = await ctx.run("add", async () => {
        hooks.step();
        return before + 1;
      });
    }
    return n;
  };
  return restate.service({ name: "longRuns", handlers: { manySteps } });
}

function sleepers(hooks) {
  const sleeper = async (ctx, { index, dueAt }) => {
    await ctx.sleep(Math.max(0, dueAt - Date.now()));
    hooks.woke(index);
  };
  // By default it keeps a connection open for a sleeping call, and the number of connections is limited. This closes it at once.
  return restate.service({ name: "sleepers", handlers: { sleeper }, options: { inactivityTimeout: 0 } });
}

async function register({ admin }, uri) {
  const headers = { "content-type": "application/json" };
  return (await fetch(`${admin}/deployments`, { method: "POST", headers, body: JSON.stringify({ uri }) })).ok;
}

async function poll(ask) {
  for (const until = performance.now() + startMsMax; ; await delay(50)) {
    const answer = await ask().catch((error) => error);
    if (answer === true) return;
    if (performance.now() > until) throw new Error(`Restate was not ready within ${startMsMax} ms: ${answer}`);
  }
}
