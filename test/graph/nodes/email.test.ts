import type { BaseNode, NodeInput } from "onceflow/graph";
import { email } from "onceflow/nodes";
import { mockNodeInput } from "onceflow/testing";
import { expect, onTestFinished, test } from "vitest";
import { smtpError } from "../../../src/graph/nodes/email/smtp.js";
import { serveMail } from "./smtp-server.js";

const settings = {
  from: { name: "The Shop", address: "shop@example.com" },
  to: "{{payload.to}}",
  subject: "Order {{payload.id}}",
  text: "Thank you.",
};
const order = { id: "o-1", to: "ada@example.org" };
const input = (payload: Record<string, unknown> = order, key = "o-1-mail") => mockNodeInput("in", payload, { idempotencyKey: key });

async function send(url: string, given: Record<string, unknown>, from: NodeInput = input()) {
  const node = email({ smtp: url }).node(given) as BaseNode;
  await node.init(given);
  const output = await node.handle(from);
  return output?.sent.map(({ data }) => data);
}

const codeOf = (sending: Promise<unknown>) =>
  sending.then(
    () => "sent",
    (error: { readonly code: string }) => error.code,
  );

test("sends a message whose Message-ID is the same at every attempt and differs between keys", async () => {
  const server = await serveMail(onTestFinished);
  const html = "<p>{{payload.note}}</p>";
  const note = "<b>5 & 6</b>";
  const [sent] = (await send(server.url, { ...settings, html }, input({ ...order, note }))) ?? [];
  await send(server.url, settings);
  await send(server.url, settings, input(order, "o-2-mail"));
  const ids = server.accepted.map(({ messageId }) => messageId);
  expect(ids[0]).toMatch(/^<[0-9a-f]{40}@example\.com>$/);
  expect(ids[1]).toBe(ids[0]);
  expect(ids[2]).not.toBe(ids[0]);
  expect(sent).toEqual({ messageId: ids[0], accepted: ["ada@example.org"], rejected: [] });
  const [{ source, to }] = server.accepted as [(typeof server.accepted)[number]];
  expect(to).toEqual(["ada@example.org"]);
  expect(source).toMatch(/^From: The Shop <shop@example\.com>$/im);
  expect(source).toMatch(/^Subject: Order o-1$/im);
  expect(source).toContain("&lt;b&gt;5 &amp; 6&lt;/b&gt;");
});

test("a value from a packet cannot add recipients, headers or attachments", async () => {
  const server = await serveMail(onTestFinished);
  for (const to of ["a@x.org, b@x.org", "Eve <e@x.org>", "a@x.org\r\nBcc: b@x.org", '"a b"@x.org', "nobody", ""])
    expect(await codeOf(send(server.url, settings, input({ ...order, to })))).toBe("VALIDATION");
  expect(await codeOf(send(server.url, settings, input({ ...order, id: "1\r\nBcc: b@x.org" })))).toBe("VALIDATION");
  expect(server.accepted).toEqual([]);
});

test("the code of an error says whether the server may have the message", async () => {
  const server = await serveMail(onTestFinished, { answer: (no) => [451, 554, "cut" as const][no - 1] });
  expect(await codeOf(send(server.url, settings))).toBe("TEMPORARY");
  expect(await codeOf(send(server.url, settings))).toBe("PERMANENT");
  expect(server.accepted).toHaveLength(0);
  expect(await codeOf(send(server.url, settings))).toBe("NETWORK_ERROR");
  expect(server.accepted).toHaveLength(1);
  expect(await codeOf(send("smtp://127.0.0.1:1", settings))).toBe("TEMPORARY");
  expect(smtpError(Object.assign(new Error("password"), { code: "EAUTH" })).message).not.toMatch(/password/);
});

test.each([
  [{ ...settings, text: undefined }, /`text`, `html` or both/],
  [{ ...settings, from: "shop" }, /settings\.from/],
  [{ ...settings, subjet: "x" }, /did you mean "subject"\?/],
  [{ ...settings, to: [] }, /settings\.to/],
  [{ ...settings, subject: "{{secrets.x}}" }, /unknown placeholder/],
])("checks its settings: %#", (given, message) => {
  expect(() => email({ smtp: "smtp://localhost" }).node(JSON.parse(JSON.stringify(given)))).toThrow(message);
});

test("says what is missing or wrong about the mail server, without its password", () => {
  expect(() => email().node(settings)).toThrow(/ONCEFLOW_SMTP_URL/);
  expect(() => email({ smtp: "http://user:pass@x/" }).node(settings)).toThrow(/smtps:\/\/user:password@/);
  expect(() => email({ url: "x" } as never)).toThrow(/not an option/);
});
