import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { open } from "onceflow";
import { createRuntime, type Runtime, type RuntimeEvent } from "onceflow/graph";
import { readyMadeNodes } from "onceflow/nodes";
import { type EffectServer, serveEffects } from "onceflow/testing";
import { expect, onTestFinished, test } from "vitest";
import { Program } from "../../kit/program.js";
import { onStores, onStoresInTurn, type Scene } from "../../kit/scene.js";
import { flow } from "../documents.js";
import { packetStores, running, triggered } from "../runtimes.js";
import { serveMail } from "./smtp-server.js";

const document = (effect: string, delivery = "") =>
  flow({
    nodes: `In: { operationId: take, kind: source }\nEffect: ${effect}`,
    edges: `- { from: In, to: Effect, delivery: { mode: durable, idempotencyKey: "{{payload.id}}-effect"${delivery} } }`,
  });

const local = { privateAddresses: ["127.0.0.1"] };
const charge = ({ url }: Pick<EffectServer, "url">) =>
  document(`{ operationId: http_request, kind: action, settings: { method: POST, url: "${url}", body: { id: "{{payload.id}}" } } }`);
const mail = (delivery = "") =>
  document(
    '{ operationId: email, kind: action, settings: { from: shop@example.com, to: "{{payload.to}}", subject: Order, text: Thank you } }',
    delivery,
  );

/** One process triggers the flow and dies after the effect, before the commit; a second one takes the packet over. */
async function killedBetween(scene: Scene, { text }: { readonly text: string }, payload: Record<string, unknown>, smtp = "") {
  const start = (doom: string) =>
    new Program<string>("graph/programs/ready-made", [scene.url, text, smtp, doom], { onEnd: (end) => scene.onEnd(end) });
  const first = start("die");
  await first.next((message): message is "ready" => message === "ready");
  first.send(payload);
  expect((await first.ended).signal).toBe("SIGKILL");
  const second = start("");
  return await second.next((message): message is string => message !== "ready");
}

async function provider(scene: Scene): Promise<EffectServer> {
  const server = await serveEffects({ honoursKeys: true });
  scene.onEnd(() => server.close());
  return server;
}

onStoresInTurn("ready-made nodes in a process that is killed between effect and commit", ["sqlite"], (test) => {
  test("http_request repeats the request with the same key, and the effect happens once", async ({ scene }) => {
    const server = await provider(scene);
    expect(await killedBetween(scene, charge(server), { id: "o-1" })).toBe("completed");
    const { effects } = server;
    expect({ calls: effects.rawCalls("o-1-effect"), applied: effects.applied("o-1-effect") }).toEqual({ calls: 2, applied: 1 });
  });

  test("email sends the message again with the same Message-ID: SMTP has no keys", async ({ scene }) => {
    const server = await serveMail((end) => scene.onEnd(end));
    expect(await killedBetween(scene, mail(), { id: "o-1", to: "ada@example.org" }, server.url)).toBe("completed");
    const ids = server.accepted.map(({ messageId }) => messageId);
    expect(ids).toHaveLength(2);
    expect(new Set(ids).size).toBe(1);
  });

  test("email is not sent again if the edge's recovery is fail: the packet is a dead letter", async ({ scene }) => {
    const server = await serveMail((end) => scene.onEnd(end));
    const once = mail(", recovery: { strategy: fail }");
    expect(await killedBetween(scene, once, { id: "o-1", to: "ada@example.org" }, server.url)).toBe("dead");
    expect(server.accepted).toHaveLength(1);
  });
});

onStores("ready-made nodes, delivered twice", packetStores, (test) => {
  const twice = async (runtime: Runtime) => {
    const payload = { id: "o-1", to: "ada@example.org" };
    await triggered(runtime, payload);
    const { status, duplicates } = await triggered(runtime, payload);
    expect({ status, duplicates }).toEqual({ status: "completed", duplicates: 1 });
  };

  test("http_request makes no second request for a key that is completed", async ({ scene }) => {
    const server = await provider(scene);
    await twice(await running(scene, charge(server), readyMadeNodes(local)));
    expect(server.effects.rawCalls("o-1-effect")).toBe(1);
  });

  test("email sends no second message for a key that is completed", async ({ scene }) => {
    const server = await serveMail((end) => scene.onEnd(end));
    await twice(await running(scene, mail(), readyMadeNodes({ smtp: server.url })));
    expect(server.accepted).toHaveLength(1);
  });
});

test("a retry waits at least as long as the server asks", async () => {
  const server = createServer((_, response) => void response.writeHead(429, { "retry-after": "3600" }).end());
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  onTestFinished(() => void server.close());
  const store = await open("memory:");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const runtime = await createRuntime({ store, documents: [charge({ url })], nodes: readyMadeNodes(local) });
  onTestFinished(() => store.close());
  const retrying = new Promise<RuntimeEvent>((resolve) => {
    runtime.on((event) => event.type === "retrying" && resolve(event));
  });
  await runtime.trigger("flow", undefined, { id: "o-1" });
  expect(await retrying).toMatchObject({ code: "RATE_LIMITED", delayMs: 3_600_000 });
});

test.each([
  ["http_request", charge({ url: "https://api.example.com/" }), /cannot recognise a POST that is repeated/],
  ["email", mail(), /two Message-IDs/],
])("%s refuses to start behind an edge without a key", async (_, { text }, message) => {
  const store = await open("memory:");
  onTestFinished(() => store.close());
  const documents = [{ text: text.replace(/, idempotencyKey: "[^"]*"/, ""), file: "flow.yaml" }];
  const starting = createRuntime({ store, documents, nodes: readyMadeNodes({ smtp: "smtp://mail.example.com" }) });
  await expect(starting).rejects.toThrow(message);
});
