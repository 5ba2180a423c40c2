import { createHmac } from "node:crypto";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { isSigned } from "../../../server/webhooks/signature.js";
import { mockNodeInput } from "../../../testing/node-delivery.js";
import { handle } from "../../node/node.js";
import { webhookSignature } from "../../webhooks/standard-webhooks.js";
import { webhookOut } from "./webhook-out.js";

const [first, second] = [Buffer.alloc(24, 1), Buffer.alloc(32, 2)];
const secrets = { orders: `whsec_${first.toString("base64")}`, older: `whsec_${second.toString("base64")}`, bad: "whsec_short" };
const options = { secrets, privateAddresses: ["127.0.0.1"] };

async function receiver(statuses: number[] = []) {
  const received: { readonly headers: IncomingHttpHeaders; readonly body: string }[] = [];
  const server = createServer(async (request, response) => {
    received.push({ headers: request.headers, body: Buffer.concat(await request.toArray()).toString() });
    response.writeHead(statuses.shift() ?? 204, { "retry-after": "3" }).end();
  });
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  onTestFinished(() => void server.close());
  return { received, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook` };
}

const input = (idempotencyKey: string | undefined, payload = { id: "o-1" }) =>
  mockNodeInput("in", payload, { ...(idempotencyKey && { idempotencyKey }), context: { sentAt: 1_700_000_000_000 } });

test("posts a signed event whose id is the key; a retry has the same id and body", async () => {
  const { received, url } = await receiver([503]);
  const node = webhookOut(options).node({ url, type: "order.paid", secret: ["orders", "older"] });
  await expect(handle(node, input("o-1-hook"))).rejects.toMatchObject({ code: "TEMPORARY", retryAfterMs: 3000 });
  expect((await handle(node, input("o-1-hook"))).sent).toEqual([{ port: "out", data: { id: "o-1" } }]);
  expect(received.map(({ headers }) => headers["webhook-id"])).toEqual(["o-1-hook", "o-1-hook"]);
  expect(received[1]?.body).toBe(received[0]?.body);
  expect(JSON.parse(received[0]?.body ?? "")).toEqual({ type: "order.paid", timestamp: "2023-11-14T22:13:20.000Z", data: { id: "o-1" } });
  for (const { headers, body } of received) {
    // Computed here as a receiver does it.
    const content = `${headers["webhook-id"]}.${headers["webhook-timestamp"]}.${body}`;
    const signatures = [first, second].map((key) => `v1,${createHmac("sha256", key).update(content).digest("base64")}`);
    expect(headers["webhook-signature"]).toBe(signatures.join(" "));
    // The webhook entry points of onceflow/server accept it, with either key.
    const request = { headers: new Headers(headers as Record<string, string>), body: Buffer.from(body) };
    const signature = { scheme: "standard-webhooks", secrets: [], toleranceMs: 300_000 } as const;
    for (const key of [first, second]) expect(isSigned(signature, [key], request)).toBe(true);
    expect(isSigned(signature, [Buffer.alloc(24, 9)], request)).toBe(false);
  }
});

test("the signature is that of the specification's example", () => {
  const key = Buffer.from("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "base64");
  const message = { id: "msg_p5jXN8AQM9LWM0D4loKWxJek", timestamp: 1_614_265_330, body: '{"test": 2432232314}' };
  expect(webhookSignature(message, key)).toBe("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
});

test("an id has no dot, which separates the parts of the signed text", async () => {
  const { received, url } = await receiver();
  await handle(webhookOut(options).node({ url, type: "t", secret: "orders" }), input("o.1-hook"));
  expect(received[0]?.headers["webhook-id"]).toMatch(/^msg_[0-9a-f]{64}$/);
});

test("410 ends the webhook, 429 waits, and other failures are retried", async () => {
  const { url } = await receiver([410, 429, 404, 301]);
  const node = webhookOut(options).node({ url, type: "t", secret: "orders", data: { id: "{{payload.id}}" } });
  for (const code of ["PERMANENT", "RATE_LIMITED", "TEMPORARY", "TEMPORARY"])
    await expect(handle(node, input("k"))).rejects.toMatchObject({ code });
});

test.each([
  [{ url: "https://example.com", type: "t", secret: "ordrs" }, /there is no secret "ordrs"; did you mean "orders"\?/],
  [{ url: "https://example.com", type: "t", secret: "bad" }, /secrets\.bad: must be "whsec_"/],
  [{ url: "https://example.com", secret: "orders" }, /type/],
  [{ url: "http://10.0.0.1/", type: "t", secret: "orders" }, /private address/],
])("checks its settings: %#", (settings, message) => {
  expect(() => webhookOut(options).node(settings)).toThrow(message);
  expect(() => webhookOut(options).node(settings)).not.toThrow(/short/);
});
