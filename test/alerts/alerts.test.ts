import { once as nextEvent } from "node:events";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import type { Store } from "onceflow";
import { type AlertOptions, type Alerts, alertOn, type RunAlert } from "onceflow/alerts";
import { FatalError, getStepMetadata, step, workflow } from "onceflow/workflow";
import { getRun, resolveStep, retryRun, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { webhookKey, webhookSignature } from "../../src/graph/webhooks/standard-webhooks.js";
import { fullStores, onStores, type Scene, shortMs } from "../kit/scene.js";
import { until } from "../kit/until.js";
import { untilStatus } from "../workflow/scene.js";

const secret = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;

interface Watched {
  readonly alerts: Alerts;
  readonly sent: RunAlert[];
}

/** Alerts into a list. */
function watching(scene: Scene, store: Store, options: Partial<AlertOptions> = {}): Watched {
  const sent: RunAlert[] = [];
  const alerts = alertOn({ store, pollMs: 10, leaseMs: shortMs, send: (alert) => void sent.push(alert), ...options });
  scene.onEnd(() => alerts.stop());
  return { alerts, sent };
}

const until1 = (sent: readonly unknown[], count = 1) => until(`${count} alerts were sent`, () => sent.length >= count);

onStores("alerts", fullStores, (test) => {
  test("a run that fails, is retried and fails again: two alerts, without values, each sent once", async ({ scene }) => {
    const { store } = await scene.work();
    const { sent, alerts } = watching(scene, store, { since: new Date(0) });
    const charge = step(scene.name("charge"), async (card: string) => Promise.reject(new FatalError(`no money on ${card}`)));
    const order = workflow(scene.name("order"), async (card: string) => await charge(card));
    await start(order, ["4242"], { id: "order-1", store });
    await until1(sent);
    await retryRun("order-1", { store, reason: "again" });
    await until1(sent, 2);
    const [first, second] = sent as [RunAlert, RunAlert];
    const { workflow: name } = (await store.runs.read("order-1")) as { readonly workflow: string };
    expect(first).toEqual({
      ...{ id: expect.stringMatching(/^run-failed-[0-9a-f]{32}$/), type: "onceflow.run", status: "failed", run: "order-1", workflow: name },
      ...{ error: { name: "FatalError", code: "FATAL" }, createdAt: expect.any(String), endedAt: expect.any(String) },
    });
    expect(second.id).not.toBe(first.id);
    expect(JSON.stringify(sent)).not.toMatch(/4242|money/);
    expect(await alerts.outbox.pending()).toMatchObject({ dead: 0 });
  });

  test("a step of unknown outcome, which is resolved and unknown again; each time one alert", async ({ scene }) => {
    const { store } = await scene.work();
    const { sent } = watching(scene, store, { on: ["unknown"] });
    const stepIds: string[] = [];
    const charge = step(
      scene.name("charge"),
      async () => {
        stepIds.push(getStepMetadata().stepId);
        throw new Error("timeout");
      },
      { effect: "atMostOnce" },
    );
    const order = workflow(scene.name("order"), async () => await charge());
    await start(order, [], { id: "order-1", store });
    await until1(sent);
    await resolveStep({ runId: "order-1", stepId: stepIds[0] ?? "", attempt: 1, reason: "not there", store }, "notApplied");
    await until1(sent, 2);
    expect(sent.map(({ status, run }) => `${status} ${run}`)).toEqual(["unknown order-1", "unknown order-1"]);
    expect(new Set(sent.map(({ id }) => id)).size).toBe(2);
  });

  test("a run that fails while no process sends alerts is found later, and one from before the first start is not", async ({ scene }) => {
    const { store } = await scene.work();
    const fails = workflow(scene.name("fails"), async () => Promise.reject(new FatalError("always")));
    const fail = async (id: string) => {
      await start(fails, [], { id, store });
      await untilStatus(store, id, "failed");
    };
    await fail("before");
    // Long enough that a busy machine does not lose it.
    const leaseMs = 2000;
    const first = watching(scene, store, { leaseMs });
    await until(
      "the first process has begun",
      async () => typeof (await store.read({ scope: "onceflow:alerts", key: "runs" }))?.record.progress === "string",
    );
    await fail("meanwhile");
    await until1(first.sent);
    await first.alerts.stop();
    await fail("later");
    const other = await scene.open();
    const [second, third] = [watching(scene, store, { leaseMs }), watching(scene, other, { leaseMs })];
    await until("the later run is found", () => second.sent.length + third.sent.length > 0);
    expect([...first.sent, ...second.sent, ...third.sent].map(({ run }) => run)).toEqual(["meanwhile", "later"]);
  });
});

interface Received {
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** A server that answers with these statuses, and then with 204. */
async function receiver(scene: Scene, ...statuses: number[]): Promise<{ readonly url: string; readonly received: Received[] }> {
  const received: Received[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8").on("data", (text: string) => {
      body += text;
    });
    request.on("end", () => {
      received.push({ headers: request.headers, body });
      response.writeHead(statuses.shift() ?? 204).end();
    });
  }).listen(0, "127.0.0.1");
  await nextEvent(server, "listening");
  scene.onEnd(() => void server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`, received };
}

onStores("alerts by webhook", ["memory"], (test) => {
  test("are signed, and are sent again with the same id until the receiver accepts them", async ({ scene }) => {
    const { store } = await scene.work();
    const { url, received } = await receiver(scene, 500, 302);
    const webhook = { url, secret, privateAddresses: ["127.0.0.1"] };
    const alerts = alertOn({ store, pollMs: 10, webhook });
    scene.onEnd(() => alerts.stop());
    const fails = workflow(scene.name("fails"), async () => Promise.reject(new FatalError("always")));
    await start(fails, [], { id: "r", store });
    await until("the alert was accepted", async () => received.length === 3 && (await alerts.outbox.pending()).publishing === 0);
    const [first] = received as [Received];
    const id = String(first.headers["webhook-id"]);
    expect(JSON.parse(first.body)).toMatchObject({ id, type: "onceflow.run", status: "failed", run: "r" });
    for (const { headers, body } of received) {
      const timestamp = Number(headers["webhook-timestamp"]);
      expect(headers["webhook-id"]).toBe(id);
      expect(body).toBe(first.body);
      expect(headers["webhook-signature"]).toBe(webhookSignature({ id, timestamp, body }, webhookKey("secret", secret)));
    }
  });

  test("options are checked, and no message has the secret or the URL", async ({ scene }) => {
    const store = await scene.open();
    const url = "https://alerts.example/token-1234";
    const wrong: readonly (readonly [object, RegExp])[] = [
      [{}, /webhook: or send must be given, and not both/],
      [{ webhook: { url, secret }, send: () => {} }, /not both/],
      [{ send: () => {}, on: [] }, /on: must be a list of at least one of: failed, unknown, diverged, parked/],
      [{ send: () => {}, on: ["failled"] }, /not "failled"/],
      [{ send: () => {}, naem: "x" }, /naem/],
      [{ send: () => {}, name: "a b" }, /name/],
      [{ send: () => {}, pollMs: 1 }, /pollMs/],
      [{ send: () => {}, since: new Date(Number.NaN) }, /since/],
      [{ send: "https://x" }, /send/],
      [{ webhook: { url: "ftp://x", secret } }, /webhook\.url/],
      [{ webhook: { url: "http://127.0.0.1/", secret } }, /private or link-local/],
      [{ webhook: { url, secret: "whsec_short" } }, /webhook\.secret/],
      [{ webhook: { url, secret: [] } }, /webhook\.secret/],
      [{ webhook: { url, secret, sekret: 1 } }, /sekret/],
    ];
    for (const [options, message] of wrong) {
      const call = () => alertOn({ store, ...options } as AlertOptions);
      expect(call).toThrow(message);
      expect(call).not.toThrow(/token-1234|BwcH/);
    }
  });

  test("a callback that throws, and a store that fails for a while, stop nothing", async ({ scene }) => {
    const store = await scene.open();
    let isAway = true;
    const list: Store["runs"]["list"] = async (query) => {
      if (isAway) throw new Error("away");
      return await store.runs.list(query);
    };
    const cut = Object.create(store, { runs: { value: Object.create(store.runs, { list: { value: list } }) } }) as Store;
    await scene.work({}, store);
    const troubles: unknown[] = [];
    const onTrouble = (error: unknown) => {
      troubles.push(error);
      throw error;
    };
    const { sent } = watching(scene, cut, { onTrouble });
    await until("the trouble was reported", () => troubles.length > 1);
    const fails = workflow(scene.name("fails"), async () => Promise.reject(new FatalError("always")));
    await start(fails, [], { id: "r", store });
    await untilStatus(store, "r", "failed");
    isAway = false;
    await until1(sent);
    expect(await getRun("r", { store }).status).toBe("failed");
  });
});
