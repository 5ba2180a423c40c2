import assert from "node:assert/strict";
import { test } from "node:test";
import { testWorkflows } from "onceflow/testing";
import { sleep } from "onceflow/workflow";

/** A program for `node --import onceflow/register --test`: steps with "use step" are mocked by reference and by name. */
async function charge(order: string): Promise<string> {
  "use step";
  return `real ${order}`;
}

async function mail(order: string): Promise<string> {
  "use step";
  return `mailed ${order}`;
}

async function fulfil(order: string): Promise<string[]> {
  "use workflow";
  const charged = await charge(order);
  await sleep("1d");
  return [charged, await mail(order), new Date().toISOString()];
}

test("directives: mocks, crashes, counts, virtual dates", async () => {
  await using t = await testWorkflows();
  const mocked = t.mockStep(charge, (order) => `mocked ${order}`);
  const name = "step//test/workflow/programs/node-test-directives.ts//mail";
  t.mockStep(name, () => "by name");
  const crash = t.crash({ step: charge, when: "after" });
  const run = await t.start(fulfil, ["o1"]);
  await t.waitForSleep(run);
  await t.advance("1d");
  assert.deepEqual(await t.result(run), ["mocked o1", "by name", "2030-01-02T00:00:10.000Z"]);
  assert.equal(crash.happened, true);
  assert.deepEqual(
    mocked.calls.map(({ attempt }) => attempt),
    [1, 2],
  );
  t.expectCalls(mail, 1);
  t.expectCalls(name, 1);
  await t.expectReplay(run);
});
