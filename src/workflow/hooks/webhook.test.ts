import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { encode } from "../../core/values/codec.js";
import { storedAs, webhookOf } from "./webhook.js";

const hook = (token: string, metadata: unknown) => ({
  token: storedAs(token),
  run: "r",
  about: "hook#0",
  metadata: encode(metadata),
  createdAt: 0,
});

test("a hook record is a webhook only if it has the full digest of the token", () => {
  const digest = (text: string) => Buffer.from(text.padEnd(32, "\0")).toString("base64url");
  expect(webhookOf(hook("t", { webhook: { digest: digest("other"), respond: "default" } }), "t")).toBeUndefined();
  expect(webhookOf(hook("t", { webhook: { digest: "", respond: "default" } }), "t")).toBeUndefined();
  const right = createHash("sha256").update("t").digest("base64url");
  expect(webhookOf(hook("t", { webhook: { digest: right, respond: "default" } }), "t")).toMatchObject({ respond: "default" });
});

test("a plain hook whose token looks like that of a webhook is not a webhook", () => {
  for (const metadata of [null, undefined, 5, { webhook: true }, { webhook: {} }])
    expect(webhookOf(hook("t", metadata), "t")).toBeUndefined();
});
