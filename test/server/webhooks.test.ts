import { createHmac } from "node:crypto";
import { ConfigurationError, open } from "onceflow";
import { createRuntime, loadFlows, type Runtime } from "onceflow/graph";
import { createApp, type Served, type ServeOptions, serve } from "onceflow/server";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { onStores, type Scene as Place } from "../kit/scene.js";
import { problem, raw } from "./scene.js";

const signature = (more: string, scheme = "stripe") => `{ scheme: ${scheme}, secretEnv: SECRET ${more} }`;
const documentOf = (entry: string) => `
flowdsl: "1.0"
info: { title: Payments, version: "1.0.0" }
entrypoints:
  - { node: Receive, ${entry} }
nodes:
  Receive: { operationId: receive, kind: source, outputs: { out: { packet: Payment } } }
  Book: { operationId: book, kind: action, inputs: { in: { packet: Payment } } }
edges:
  - { from: Receive, to: Book, delivery: { mode: durable, packet: Payment } }
components:
  packets: { Payment: { type: object, required: [amount], properties: { amount: { type: integer } } } }
`;
const stripe = `kind: webhook, path: /webhooks/stripe, signature: ${signature("")}`;
const secret = "whsec_of-the-sender";
const env = { SECRET: secret };

const stripeSignature = (body: string, at = Math.floor(Date.now() / 1000), key = secret) =>
  `t=${at},v1=${createHmac("sha256", key).update(`${at}.${body}`).digest("hex")}`;

interface Scene {
  readonly runtime: Runtime;
  readonly server: Served;
  readonly booked: number[];
  readonly deliver: (body: string, headers?: Readonly<Record<string, string>>, init?: RequestInit) => Promise<Response>;
}

async function serving(entry: string, { place, ...options }: ServeOptions & { readonly place?: Place } = {}): Promise<Scene> {
  const store = await (place?.open() ?? open("memory:"));
  const booked: number[] = [];
  const runtime = await createRuntime({
    store,
    documents: [{ text: documentOf(entry) }],
    nodes: { book: (input) => void booked.push(input.packet("in").getNumber("amount")) },
  });
  const server = await serve(runtime, { port: 0, env, ...options });
  const end = async () => {
    await server.close();
    await store.close();
  };
  if (place) place.onEnd(end);
  else onTestFinished(end);
  const deliver: Scene["deliver"] = (body, headers = { "stripe-signature": stripeSignature(body) }, init = {}) =>
    fetch(`${server.url}/webhooks/stripe`, { method: "POST", headers: { "content-type": "application/json", ...headers }, body, ...init });
  return { runtime, server, booked, deliver };
}

const event = (id: string, amount = 5) => JSON.stringify({ id, amount });

onStores("a webhook", ["memory", "sqlite", "postgres"], (test) => {
  test("copies of one event that arrive together start one execution, and all are answered 200", async ({ scene }) => {
    const { deliver, runtime, booked } = await serving(stripe, { place: scene });
    const answers = await Promise.all(Array.from({ length: 8 }, () => deliver(event("evt_1"))));
    const bodies = (await Promise.all(answers.map((answer) => answer.json()))) as { executionId: string; status: string }[];
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    expect(bodies.filter(({ status }) => status === "started")).toHaveLength(1);
    expect(new Set(bodies.map(({ executionId }) => executionId)).size).toBe(1);
    await runtime.wait(bodies[0]?.executionId ?? "");
    expect([booked, (await runtime.executions()).map(({ key }) => key)]).toEqual([[5], ["evt_1"]]);
  });
});

test("forged, altered and old requests are answered 401 without a reason, and start nothing", async () => {
  const { deliver, runtime } = await serving(stripe);
  const body = event("evt_1");
  const old = Math.floor(Date.now() / 1000) - 301;
  const refused = [
    deliver(body, {}),
    deliver(body, { "stripe-signature": "t=1,v1=00" }),
    deliver(body, { "stripe-signature": stripeSignature(body, undefined, "another secret") }),
    deliver(`${body} `, { "stripe-signature": stripeSignature(body) }),
    deliver(body, { "stripe-signature": stripeSignature(body, old) }),
    // Nothing of the body is read before the signature is known to be right.
    deliver("not JSON", { "stripe-signature": stripeSignature(body) }),
  ];
  const bodies = await Promise.all(refused.map(async (answer) => problem(await answer)));
  for (const { status, name, body: said } of bodies) {
    expect([status, name]).toEqual([401, "server:signature-refused"]);
    expect(Object.keys(said).sort()).toEqual(["status", "title", "type"]);
  }
  expect(await runtime.executions()).toEqual([]);
});

test("a signed request needs neither the token nor a loopback host, and opens no other route", async () => {
  const token = "a-token-that-is-long-enough";
  const { deliver, server } = await serving(stripe, { token });
  expect((await deliver(event("evt_1"))).status).toBe(200);
  expect((await raw(server, "/flows")).status).toBe(401);
  const open = await serving(stripe);
  const body = event("evt_1");
  const headers = { host: "hooks.example.com", "stripe-signature": stripeSignature(""), "content-type": "application/json" };
  // An empty body with a right signature comes as far as the parser.
  expect((await raw(open.server, "/webhooks/stripe", { method: "POST", headers })).status).toBe(400);
  expect((await raw(open.server, "/flows", { headers })).status).toBe(403);
  expect((await open.deliver(body)).status).toBe(200);
});

test("what a signed request can be wrong about", async () => {
  const { deliver, server } = await serving(stripe, { bodyBytesMax: 1000 });
  const answer = async (body: string, headers: Readonly<Record<string, string>> = {}) => {
    const { status, name, body: said } = await problem(await deliver(body, { "stripe-signature": stripeSignature(body), ...headers }));
    return [status, name, said["detail"]];
  };
  expect(await answer('{"amount":1}')).toEqual([400, "server:body-malformed", expect.stringContaining("the field id") as string]);
  expect(await answer('{"id":{},"amount":1}')).toEqual([400, "server:body-malformed", expect.stringContaining("the field id") as string]);
  expect(await answer('{"__proto__":{"id":"x"},"amount":1}')).toEqual([400, "server:body-malformed", expect.anything()]);
  // JSON.parse rounds it: two events would have one key, and the second one would be ignored.
  const rounded = [400, "server:body-malformed", expect.stringContaining("send it as text") as string];
  expect(await answer('{"id":9007199254740993,"amount":1}')).toEqual(rounded);
  expect(await answer(event("x".repeat(256)))).toEqual([400, "server:body-malformed", expect.stringContaining("255") as string]);
  expect(await answer("[1]")).toEqual([400, "server:body-malformed", expect.anything()]);
  expect(await answer('{"id":"evt_1","amount":"much"}')).toEqual([400, "server:payload-invalid", expect.anything()]);
  expect(await answer(event("evt_1"), { "content-type": "text/plain" })).toEqual([415, "server:media-type-refused", undefined]);
  expect(await answer(event("x".repeat(2000)))).toEqual([413, "server:body-too-long", expect.anything()]);
  expect((await deliver(event("evt_1"), undefined, { method: "PUT" })).status).toBe(405);
  expect((await fetch(`${server.url}/webhooks/other`, { method: "POST" })).status).toBe(404);
  expect((await fetch(`${server.url}/webhooks/stripe`)).status).toBe(405);
});

test("an event that comes again with another content is acknowledged, and reported to the operator", async () => {
  const onError = vi.fn<(error: unknown) => void>();
  const { deliver, runtime } = await serving(stripe, { onError });
  await deliver(event("evt_1", 1));
  const again = await deliver(event("evt_1", 2));
  expect([again.status, await again.json()]).toMatchObject([200, { status: "duplicate" }]);
  expect(onError).toHaveBeenCalledWith(expect.objectContaining({ message: expect.stringContaining("evt_1") as string }));
  expect(await runtime.executions()).toHaveLength(1);
});

test("each of several secrets is accepted, so that a secret can be replaced", async () => {
  const entry = "kind: webhook, path: /webhooks/stripe, signature: { scheme: stripe, secretEnv: [OLD, NEW] }";
  const { deliver } = await serving(entry, { env: { OLD: "old", NEW: "new" } });
  for (const key of ["old", "new", "other"]) {
    const body = event(`evt_${key}`);
    const { status } = await deliver(body, { "stripe-signature": stripeSignature(body, undefined, key) });
    expect([key, status]).toEqual([key, key === "other" ? 401 : 200]);
  }
});

test("github and standard-webhooks take the key from their header", async () => {
  const body = event("of-the-payload");
  const github = await serving(`kind: webhook, path: /webhooks/stripe, signature: ${signature("", "github")}`);
  const hub = { "x-hub-signature-256": `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`, "x-github-delivery": "d-1" };
  expect((await github.deliver(body, hub)).status).toBe(200);
  expect((await github.runtime.executions())[0]?.key).toBe("d-1");

  const key = Buffer.from("a secret of 24 bytes....");
  const standard = await serving(`kind: webhook, path: /webhooks/stripe, method: PUT, signature: ${signature("", "standard-webhooks")}`, {
    env: { SECRET: `whsec_${key.toString("base64")}` },
  });
  const at = Math.floor(Date.now() / 1000);
  const signed = createHmac("sha256", key).update(`msg_1.${at}.${body}`).digest("base64");
  const headers = { "webhook-id": "msg_1", "webhook-timestamp": String(at), "webhook-signature": `v1,${signed}` };
  expect((await standard.deliver(body, headers, { method: "PUT" })).status).toBe(200);
  expect((await standard.runtime.executions())[0]?.key).toBe("msg_1");
});

describe("a server does not start", () => {
  const starting = async (entries: readonly string[], given: Record<string, string>) => {
    const store = await open("memory:");
    onTestFinished(() => store.close());
    const documents = entries.map((entry, i) => ({ text: documentOf(entry).replace("title: Payments", `title: Payments ${i}`) }));
    const runtime = await createRuntime({ store, documents, nodes: { book: () => {} }, work: false });
    try {
      createApp(runtime, { env: given });
      return undefined;
    } catch (error) {
      expect(error).toBeInstanceOf(ConfigurationError);
      return error as ConfigurationError;
    }
  };

  test("without the secret of a webhook", async () => {
    for (const given of [{}, { SECRET: "" }, { SECRET: "  " }]) {
      const error = await starting([stripe], given);
      expect([error?.code, error?.message]).toEqual([
        "WEBHOOK_SECRET",
        expect.stringMatching(/\/webhooks\/stripe.*SECRET.*set it to/) as string,
      ]);
    }
  });

  test("with a secret that does not have the form of its scheme; the message does not show it", async () => {
    const entry = `kind: webhook, path: /webhooks/stripe, signature: ${signature("", "standard-webhooks")}`;
    const error = await starting([entry], { SECRET: "not base64!" });
    expect([error?.code, error?.message]).toEqual(["WEBHOOK_SECRET", expect.not.stringContaining("not base64!") as string]);
  });

  test("with two webhooks at one path", async () => {
    expect((await starting([stripe, stripe], env))?.code).toBe("WEBHOOK_PATH");
  });
});

describe("a document is refused", () => {
  const hmac = (more: string) => `kind: webhook, path: /webhooks/x, key: payload.id, signature: ${signature(more, "hmac")}`;
  test.each([
    ["kind: webhoook", "FLOW_BAD_VALUE", 'did you mean "webhook"?'],
    ["kind: webhook", "FLOW_MISSING_FIELD", '"path" is missing'],
    ["kind: webhook, path: /webhooks/x", "FLOW_MISSING_FIELD", '"signature" is missing'],
    [`kind: webhook, path: /flows/x, signature: ${signature("")}`, "FLOW_BAD_VALUE", "/webhooks/stripe"],
    [`kind: webhook, path: /webhooks/../flows, signature: ${signature("")}`, "FLOW_BAD_VALUE", "/webhooks/stripe"],
    [`kind: webhook, path: /webhooks/x, method: GET, signature: ${signature("")}`, "FLOW_BAD_VALUE", "POST, PUT"],
    ["kind: webhook, path: /webhooks/x, signature: { scheme: stripe }", "FLOW_MISSING_FIELD", "secretEnv"],
    ["kind: webhook, path: /webhooks/x, signature: { scheme: strip, secretEnv: S }", "FLOW_BAD_VALUE", "stripe"],
    ["kind: webhook, path: /webhooks/x, signature: { scheme: stripe, secretEnv: whsec-123 }", "FLOW_BAD_VALUE", "environment variable"],
    [`kind: webhook, path: /webhooks/x, key: id, signature: ${signature("")}`, "FLOW_BAD_VALUE", "payload.id"],
    [`kind: webhook, path: /webhooks/x, signature: ${signature(", header: X-Sig", "hmac")}`, "FLOW_MISSING_FIELD", '"key" is missing'],
    [hmac(""), "FLOW_MISSING_FIELD", '"header" is missing'],
    [hmac(", header: X-Sig, content: '{timestamp}{body}'"), "FLOW_BAD_VALUE", "{body} once"],
    [hmac(", header: X-Sig, timestampHeader: X-Time, content: '{body}'"), "FLOW_BAD_VALUE", "{timestamp} and {body}"],
    [hmac(", header: X-Sig, algorithm: md5"), "FLOW_BAD_VALUE", "sha256"],
    [hmac(", header: 'X Sig'"), "FLOW_BAD_VALUE", "HTTP header"],
    [`kind: webhook, path: /webhooks/x, signature: ${signature(", tolerance: PT2D")}`, "FLOW_BAD_VALUE", "one day"],
    [`path: /webhooks/x, signature: ${signature("")}`, "FLOW_MISSING_FIELD", "add `kind: webhook`"],
  ])("%s", async (entry, code, text) => {
    const { ok, findings } = await loadFlows({ text: documentOf(entry) });
    const found = findings.find((finding) => finding.code === code);
    expect([ok, `${found?.message} ${found?.fix}`]).toEqual([false, expect.stringContaining(text) as string]);
  });

  test("a field that its scheme does not use is reported, and so is a second entry point of the node", async () => {
    const { findings } = await loadFlows({
      text: documentOf(`kind: webhook, path: /webhooks/x, signature: ${signature(", tolerance: PT5M", "github")}`),
    });
    expect(findings.map(({ code, message }) => [code, message])).toContainEqual(["FLOW_UNKNOWN_FIELD", 'unknown field "tolerance"']);
    const twice = documentOf(stripe).replace("entrypoints:", "entrypoints:\n  - { node: Receive }");
    expect((await loadFlows({ text: twice })).ok).toBe(false);
  });

  test("a key that the schema of the packet does not have is a warning", async () => {
    const found = async (key: string) => {
      const entry = `kind: webhook, message: Payment, path: /webhooks/x, key: ${key}, signature: ${signature("")}`;
      const { findings } = await loadFlows({ text: documentOf(entry) });
      return findings.filter(({ code }) => code === "FLOW_UNDECLARED_FIELD").map(({ message }) => message);
    };
    expect([await found("payload.amount"), await found("header.x-id"), await found("payload.amuont")]).toEqual([
      ...[[], []],
      ['the schema of Payment has no "amuont"'],
    ]);
  });
});
