import { readFileSync } from "node:fs";
import { serveEffects } from "onceflow/testing";
import { expect, onTestFinished, test } from "vitest";
import { appFolder, runNode } from "../../kit/app-folder.js";

/**
 * The examples that workflows set out from, as they are printed, but for the names of the packages and for what they
 * leave out: the event's own workflow, and a provider. Requests go to the provider's side of the test.
 */
const printed = (name: string) => readFileSync(new URL(`./seed/${name}.txt`, import.meta.url), "utf8");

const main = `import { configure, open } from "onceflow";
import { getRun } from "onceflow/workflow/api";
import { chargeCustomer } from "./charge.ts";
import { POST } from "./webhook.ts";

export async function processStripeEvent(event: { customer: string; amount: number }) {
  "use workflow";
  return await chargeCustomer(event.customer, event.amount);
}

const real = fetch;
globalThis.fetch = (url, init) => real(new URL(new URL(String(url)).pathname, process.env.PROVIDER), init);

configure({ store: await open("sqlite:./onceflow.db") });
const deliver = async (receivedAt: number) => {
  const body = JSON.stringify({ id: "evt_1", customer: "cus_1", amount: 4200, receivedAt });
  return (await (await POST(new Request("http://localhost/api/webhooks/stripe", { method: "POST", body }))).json()) as { runId: string };
};
const runs = [...(await Promise.all([deliver(1), deliver(2)])), await deliver(3)];
const value = await getRun(runs[0]?.runId ?? "").returnValue;
console.log(JSON.stringify({ runs, value, again: await deliver(4) }));
process.exit();
`;

test("a webhook that is delivered four times makes one run, one charge and one receipt", async () => {
  const provider = await serveEffects({ honoursKeys: true });
  onTestFinished(() => provider.close());
  const cwd = appFolder({ "main.ts": main, "charge.ts": printed("charge"), "webhook.ts": printed("webhook") });
  const { code, stdout, stderr } = await runNode(["--import", "onceflow/register", "main.ts"], { cwd, env: { PROVIDER: provider.url } });
  expect(code, stderr).toBe(0);
  const { runs, value, again } = JSON.parse(stdout) as { runs: unknown[]; value: Record<string, string>; again: unknown };
  expect(runs).toEqual(Array(3).fill({ runId: "stripe-evt_1" }));
  expect(again).toEqual({ runId: "stripe-evt_1" });
  const keys = provider.effects.keys();
  expect(keys).toHaveLength(2);
  for (const key of keys) expect([key.slice(0, 5), provider.effects.rawCalls(key)]).toEqual(["step_", 1]);
  expect(value).toEqual({ customerId: "cus_1", chargeId: `effect-${keys[0]}-1`, status: "completed" });
});
