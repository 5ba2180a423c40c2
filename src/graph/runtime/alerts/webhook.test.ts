import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { captureWarnings } from "../../../../test/kit/warnings.js";
import { NodeError } from "../../node/node-error.js";
import { post } from "./webhook.js";

test("an alert that is aborted because its worker stops rejects with that reason, without a warning of a private address", async () => {
  const server = createServer().listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  const warnings = captureWarnings("ONCEFLOW_WEBHOOK");
  const stop = new AbortController();
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const posted = post(url, { flow: "f", node: "n" }, { key: "k", signal: stop.signal, privateWebhooks: ["127.0.0.1"] });
  await once(server, "request");
  const reason = new NodeError("TEMPORARY", "the worker stops");
  stop.abort(reason);
  await expect(posted).rejects.toBe(reason);
  // Warnings are emitted in a later turn of the event loop.
  await new Promise((next) => setImmediate(next));
  expect(warnings).toEqual([]);
});
