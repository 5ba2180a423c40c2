import { open } from "onceflow";
import { NodeOutput } from "onceflow/graph";
import { NodeServer } from "onceflow/graph/remote";
import { expect, onTestFinished, test } from "vitest";
import { gate } from "../../../../test/kit/gate.js";
import { until } from "../../../../test/kit/until.js";

const body = JSON.stringify({ flowId: "f", nodeId: "n", idempotencyKey: "k", inputs: { in: {} }, deadlineMs: 60_000 });

async function invoke(url: string | undefined) {
  const response = await fetch(`${url}/v1/nodes/a/invoke`, { method: "POST", headers: { "content-type": "application/json" }, body });
  return [response.status, await response.json()];
}

test("an invocation that waits for its key ends when the server stops, and does not begin the node", async () => {
  const store = await open("memory:");
  onTestFinished(() => store.close());
  let called = 0;
  const begun = gate();
  const hang = () => {
    begun.open();
    return new Promise<NodeOutput>(() => {});
  };
  const hanging = new NodeServer({ nodes: { a: hang }, store, port: 0 });
  const stopping = new NodeServer({ nodes: { a: () => new NodeOutput().send("out", { n: ++called }) }, store, port: 0 });
  const [{ http: first }, { http: second }] = await Promise.all([hanging.start(), stopping.start()]);
  const running = invoke(first).catch(() => {});
  await begun.opened;
  const waiting = invoke(second);
  await until("the second server waits for the key", () => stopping.inFlight === 1);
  await stopping.stop({ graceMs: 60_000 });
  expect(await waiting).toEqual([503, { error: { code: "TEMPORARY", message: "the node server is stopping; try again later" } }]);
  expect(called).toBe(0);
  await hanging.stop({ graceMs: 0 });
  await running;
});
