import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createRuntime, NodeError, type Runtime, type RuntimeEvent, type RuntimeOptions } from "onceflow/graph";
import { describe, expect, vi } from "vitest";
import type { PacketOperation } from "../../src/core/packets/operation.js";
import { mortal } from "../../src/testing/mortal-store.js";
import { gate } from "../kit/gate.js";
import { onStores, type Scene, shortMs } from "../kit/scene.js";
import { until } from "../kit/until.js";
import { flow, oneEdge } from "./documents.js";
import { expectAtRest, type Nodes, packetStores, recorder, running, still, triggered } from "./runtimes.js";

interface AlertRequest {
  readonly key: unknown;
  readonly authorization: unknown;
  readonly body: {
    readonly node: string;
    readonly deadLetter: string;
    readonly message?: string;
    readonly error: { readonly code: string; readonly message: string };
  };
}

interface Webhook {
  readonly url: string;
  readonly received: AlertRequest[];
  /** How many of the next requests get status 500. */
  failures: number;
}

async function webhook(scene: Pick<Scene, "onEnd">): Promise<Webhook> {
  const hook = { url: "", received: [] as AlertRequest[], failures: 0 };
  const server = createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray()).toString();
    const { "idempotency-key": key, authorization } = request.headers;
    hook.received.push({ key, authorization, body: JSON.parse(body) as AlertRequest["body"] });
    response.statusCode = hook.failures-- > 0 ? 500 : 204;
    response.end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  hook.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  scene.onEnd(() => server.close());
  return hook;
}

const alerting = ({ url }: Webhook) => `, x-alerts: { onDeadLetter: { webhook: "${url}", message: "wake up" } }`;

const letterIn = ({ key }: Pick<AlertRequest, "key">) => /^"alert-(pk_\w+)-pk_\w+"$/.exec(String(key))?.[1];

/** Waits until the webhook has an alert for every dead letter, then expects one alert per letter, with the letter's id and error. */
async function expectAlerts(runtime: Runtime, { received }: Webhook, codes: readonly string[]): Promise<void> {
  await until("the webhook has an alert for every dead letter", () => new Set(received.map(letterIn)).size === codes.length);
  await until("no alert waits for delivery", async () =>
    (await runtime.counts()).every(({ queue, due, owned }) => !queue.includes("alerts") || due + owned === 0),
  );
  const letters = await runtime.deadLetters();
  expect(letters.map(({ error }) => error.code).sort()).toEqual([...codes].sort());
  const delivered = received.map(({ key, body }) => `${letterIn({ key })} ${body.deadLetter} ${body.error.code}: ${body.error.message}`);
  expect(delivered.sort()).toEqual(letters.map(({ id, error }) => `${id} ${id} ${error.code}: ${error.message}`).sort());
  await expectAtRest(runtime);
}

const keyed = (hook: Webhook) =>
  oneEdge('{ mode: durable, idempotencyKey: "{{payload.id}}-x", retryPolicy: { maxAttempts: 1 } }', alerting(hook));
const near = { privateWebhooks: ["127.0.0.1"] } as const;
const strict = { ...near, onMismatch: "deadLetter" } as const;

/** Triggers the flow in a process that dies right after the commit that `last` selects is stored. */
async function dyingAfter(
  scene: Scene,
  document: RuntimeOptions["documents"][number],
  nodes: Nodes,
  last: (packet: PacketOperation) => boolean,
): Promise<void> {
  const { store, die } = mortal(await scene.open());
  const dead = gate();
  const commit = (batch: { readonly packet: PacketOperation }) => {
    const answer = store.commit(batch);
    if (!last(batch.packet)) return answer;
    die();
    dead.open();
    return answer;
  };
  const dying = new Proxy(store, { get: (target, name) => (name === "commit" ? commit : Reflect.get(target, name, target)) });
  const runtime = await createRuntime({ store: dying, documents: [document], nodes, leaseMs: shortMs, ...near });
  void runtime.trigger("flow", "In", { id: 1 });
  await dead.opened;
}

onStores("an alert is posted to the webhook for", packetStores, (test) => {
  test("every dead letter, with one key per letter, and is retried until the webhook responds with success", async ({ scene }) => {
    const hook = await webhook(scene);
    hook.failures = 1;
    const work = () => {
      throw new NodeError("PERMANENT", "no");
    };
    const runtime = await running(scene, keyed(hook), { work }, near);
    await triggered(runtime, { id: "a" });
    await until("the first alert was posted twice", () => hook.received.length === 2);
    expect(hook.received[0]).toEqual(hook.received[1]);
    hook.received.shift();
    await triggered(runtime, {});
    await expectAlerts(runtime, hook, ["PERMANENT", "VALIDATION"]);
    expect(hook.received[0]?.body).toMatchObject({ type: "onceflow.deadLetter", flow: "flow", node: "Work", message: "wake up" });
  });

  test("a dead letter of the runtime and one of the store; the message has the fields of the packet, the flow and the error", async ({
    scene,
  }) => {
    const hook = await webhook(scene);
    const message = "{{packet.id}} of {{payload.customer.name}}: {{error.code}} at {{nodeId}} in {{flowId}}, {{packet.none}}";
    const document = oneEdge(
      '{ mode: durable, idempotencyKey: "{{payload.id}}-x", retryPolicy: { maxAttempts: 1 } }',
      `, x-alerts: { onDeadLetter: { webhook: "${hook.url}", message: "${message}" } }`,
    );
    const fail = { error: true };
    const work = () => {
      if (fail.error) throw new NodeError("PERMANENT", "no");
    };
    const runtime = await running(scene, document, { work }, strict);
    await triggered(runtime, { id: "a", customer: { name: "Ann" } });
    await until("the alert is posted", () => hook.received.length === 1);
    expect(hook.received[0]?.body.message).toBe("a of Ann: PERMANENT at Work in flow, {{packet.none}}");
    fail.error = false;
    await triggered(runtime, { id: "b", customer: { name: "Ann" } });
    await triggered(runtime, { id: "b", customer: { name: "Bob" } });
    await until("the alert for the store's dead letter is posted", () => hook.received.length === 2);
    expect(hook.received[1]?.body.message).toBe("b of Bob: MISMATCH at Work in flow, {{packet.none}}");
  });

  test("a key mismatch that the store detects when the packet is sent", async ({ scene }) => {
    const hook = await webhook(scene);
    const work = recorder();
    const runtime = await running(scene, keyed(hook), { work: work.node }, strict);
    await triggered(runtime, { id: "a", n: 1 });
    expect((await triggered(runtime, { id: "a", n: 2 })).status).toBe("dead");
    await expectAlerts(runtime, hook, ["MISMATCH"]);
    expect(work.seen).toHaveLength(1);
  });

  test("a key mismatch that the store detects when the packet is claimed", async ({ scene }) => {
    const hook = await webhook(scene);
    const work = recorder();
    const runtime = await running(scene, keyed(hook), { work: work.node }, strict);
    await triggered(runtime, { id: "a", n: 1 });
    await runtime.stop();
    // A worker without capacity leaves the packet that it sends in the queue; the next worker finds the key completed.
    const sender = await running(scene, keyed(hook), {}, { ...strict, partial: true });
    const { executionId = "" } = await sender.trigger("flow", "In", { id: "a", n: 2 });
    await until("the packet is due", async () =>
      (await sender.execution(executionId))?.packets.some(({ edge, state }) => edge === "In->Work.in" && state === "due"),
    );
    await sender.stop();
    const next = await running(scene, keyed(hook), { work: work.node }, strict);
    expect((await next.wait(executionId)).status).toBe("dead");
    await expectAlerts(next, hook, ["MISMATCH"]);
    expect(work.seen).toHaveLength(1);
  });

  test("a key mismatch of a packet that was held while the other packet ran", async ({ scene }) => {
    const hook = await webhook(scene);
    const [began, go] = [gate(), gate()];
    const runtime = await running(
      scene,
      keyed(hook),
      {
        work: async () => {
          began.open();
          await go.opened;
        },
      },
      strict,
    );
    const codes: string[] = [];
    runtime.on((event) => {
      if (event.type === "dead") codes.push(event.code);
    });
    await runtime.trigger("flow", "In", { id: "a", n: 1 });
    await began.opened;
    const { executionId = "" } = await runtime.trigger("flow", "In", { id: "a", n: 2 });
    await until("it is held", async () => (await runtime.execution(executionId))?.packets.some(({ state }) => state === "held"));
    go.open();
    expect((await runtime.wait(executionId)).status).toBe("dead");
    await expectAlerts(runtime, hook, ["MISMATCH"]);
    expect(codes).toEqual(["MISMATCH"]);
  });

  const joined = (hook: Webhook) =>
    flow({
      nodes: `In: { operationId: take, kind: source }
Left: { operationId: left, kind: transform }
Join: { operationId: join, kind: action, inputs: { a: {}, b: {} }${alerting(hook)} }`,
      edges: `- { from: In, to: Left, delivery: { mode: durable, retryPolicy: { maxAttempts: 1 } } }
- { from: Left, to: Join.a, delivery: { mode: durable } }
- { from: In, to: Join.b, delivery: { mode: durable } }`,
    });

  const joining = (scene: Scene, hook: Webhook, left: Nodes[string], options: Partial<RuntimeOptions> = {}) =>
    running(scene, joined(hook), { left, join: recorder().node }, { ...near, ...options });

  test("a part of a join whose other branch died", async ({ scene }) => {
    const hook = await webhook(scene);
    const runtime = await joining(scene, hook, () => {
      throw new NodeError("PERMANENT", "no");
    });
    expect(await triggered(runtime, { id: 1 })).toMatchObject({ status: "dead", dead: 2 });
    // The node of the other dead letter has no webhook.
    const [branch] = (await runtime.deadLetters()).filter(({ edge }) => edge === "In->Left.in");
    await runtime.discard(branch?.id ?? "");
    await expectAlerts(runtime, hook, ["INPUT_MISSING"]);
  });

  test("a part of a join whose other branch died, if the process dies before it learns that the commit was stored", async ({ scene }) => {
    const hook = await webhook(scene);
    const left = () => {
      throw new NodeError("PERMANENT", "no");
    };
    await dyingAfter(scene, joined(hook), { left, join: recorder().node }, ({ verb, ...packet }) => {
      return verb === "settlePacket" && "to" in packet && packet.to.kind === "dead";
    });
    const next = await joining(scene, hook, left);
    await until("both are dead letters", async () => (await next.deadLetters()).length === 2);
    const [branch] = (await next.deadLetters()).filter(({ edge }) => edge === "In->Left.in");
    await next.discard(branch?.id ?? "");
    await expectAlerts(next, hook, ["INPUT_MISSING"]);
  });

  test("a dead letter that was retried and died again, with a new key", async ({ scene }) => {
    const hook = await webhook(scene);
    const runtime = await running(scene, keyed(hook), { work: recorder().node }, strict);
    await triggered(runtime, { id: "a", n: 1 });
    const { id } = await triggered(runtime, { id: "a", n: 2 });
    for (const times of [1, 2, 3]) {
      await until("the alert is posted", () => hook.received.length === times);
      const [letter] = await runtime.deadLetters();
      expect(hook.received.at(-1)?.body).toMatchObject({ deadLetter: letter?.id, error: { code: "MISMATCH" } });
      expect(letter).toMatchObject({ executionId: id, error: { code: "MISMATCH" } });
      if (times < 3) await runtime.retry(letter?.id ?? "");
    }
    expect(new Set(hook.received.map(({ key }) => key)).size).toBe(3);
  });

  test("a part of a join whose wait expired", async ({ scene }) => {
    const hook = await webhook(scene);
    const go = gate();
    const runtime = await joining(scene, hook, () => go.opened, { joinWaitMs: 50, pollMs: 50 });
    const { executionId = "" } = await runtime.trigger("flow", "In", { id: 1 });
    await until("it has been given up", async () => (await runtime.deadLetters()).length === 1);
    go.open();
    await runtime.wait(executionId);
    await expectAlerts(runtime, hook, ["INPUT_MISSING"]);
  });
});

describe("the URL of a webhook", () => {
  const dying = () => {
    throw new NodeError("PERMANENT", "no");
  };
  const secret = /secret|hunter2/;

  still("may contain a password, which is sent as a header and appears in no event", async ({ time }) => {
    const ends: (() => void)[] = [];
    const hook = await webhook({ onEnd: (end) => ends.push(end) });
    const url = `${hook.url.replace("//", "//user:hunter%32@")}?t=secret`;
    const runtime = await time.runtime(keyed({ ...hook, url }), { work: dying }, near);
    const events: string[] = [];
    runtime.on((event) => events.push(JSON.stringify(event)));
    hook.failures = 1;
    await runtime.trigger("flow", "In", { id: 1 });
    await until("the alert is posted twice", async () => {
      await time.pass(1000);
      return hook.received.length === 2;
    });
    expect(hook.received.map(({ authorization }) => authorization)).toEqual([1, 2].map(() => `Basic ${btoa("user:hunter2")}`));
    expect(events.filter((event) => secret.test(event))).toEqual([]);
    expect(events.some((event) => event.includes("the webhook responded with 500"))).toBe(true);
    for (const end of ends) end();
  });

  still.for([
    ["http://127.0.0.1:1/secret", "retrying", "NETWORK_ERROR", /is unreachable: \w+$/, 0],
    ["file:///secret", "dead", "PERMANENT", /not an http or https URL$/, 1],
    ["data:text/plain,secret", "dead", "PERMANENT", /not an http or https URL$/, 1],
    ["secret", "dead", "PERMANENT", /not an http or https URL$/, 1],
  ] as const)("%s does not appear in the error, in events or in warnings", async ([url, type, code, message, warnings], { time }) => {
    const warned = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
    const runtime = await time.runtime(keyed({ url, received: [], failures: 0 }), { work: dying }, near);
    const events: RuntimeEvent[] = [];
    runtime.on((event) => events.push(event));
    await runtime.trigger("flow", "In", { id: 1 });
    const alert = () => events.find((event) => event.type === type && event.node === "onceflow.alerts");
    await until("the alert has failed", async () => {
      await time.pass(1);
      return alert() !== undefined;
    });
    expect(alert()).toMatchObject({ code, message: expect.stringMatching(message) });
    expect(events.filter((event) => secret.test(JSON.stringify(event)))).toEqual([]);
    expect(warned.mock.calls.map(([text]) => secret.test(String(text)))).toEqual(Array(warnings).fill(false));
    warned.mockRestore();
  });

  still.for(["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433"])(
    "%s is refused unless `privateWebhooks` allows it",
    async (host, { time }) => {
      const ends: (() => void)[] = [];
      const hook = await webhook({ onEnd: (end) => ends.push(end) });
      const warned = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
      const url = hook.url.replace("127.0.0.1", host);
      const runtime = await time.runtime(keyed({ ...hook, url }), { work: dying });
      const events: RuntimeEvent[] = [];
      runtime.on((event) => events.push(event));
      await runtime.trigger("flow", "In", { id: 1 });
      const alert = () => events.find((event) => event.type === "dead" && event.node === "onceflow.alerts");
      await until("the alert is a dead letter", async () => {
        await time.pass(1);
        return alert() !== undefined;
      });
      expect(alert()).toMatchObject({ code: "PERMANENT", message: expect.stringContaining("private") });
      expect(warned.mock.calls.some(([text]) => String(text).includes("privateWebhooks"))).toBe(true);
      warned.mockRestore();
      expect(hook.received).toEqual([]);
      for (const end of ends) end();
    },
  );

  still("is not followed when it redirects", async ({ time }) => {
    const seen: string[] = [];
    const server = createServer((request, response) => {
      seen.push(request.url ?? "");
      request.resume();
      response.writeHead(307, { location: "/elsewhere" }).end();
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    const runtime = await time.runtime(keyed({ url, received: [], failures: 0 }), { work: dying }, near);
    const events: RuntimeEvent[] = [];
    runtime.on((event) => events.push(event));
    await runtime.trigger("flow", "In", { id: 1 });
    const alert = () => events.find((event) => event.type === "retrying" && event.node === "onceflow.alerts");
    await until("the alert has failed", async () => {
      await time.pass(1);
      return alert() !== undefined;
    });
    expect(alert()).toMatchObject({ code: "TEMPORARY", message: "the webhook responded with 307; redirects are not followed" });
    expect(seen.filter((path) => path !== "/")).toEqual([]);
    server.close();
  });
});
