import { expect, onTestFinished, test } from "vitest";
import { captureWarnings } from "../../../test/kit/warnings.js";
import { sha256 } from "../../core/values/canonical.js";
import { open } from "../../stores/open.js";
import { workflow as define } from "../define/compiled.js";
import { work } from "../worker/workers.js";
import { warnIfOverdue } from "./overdue.js";

/** Reads a run of this workflow that has been due for a minute, in a process whose worker has `shop` in one package. */
async function warningAbout(stored: string, run: string): Promise<string> {
  const warnings = captureWarnings("ONCEFLOW_RUNS_OVERDUE");
  const store = await open("memory:");
  const shop = define(["workflow//acme//src/shop.ts//shop", "workflow//shop/src/shop.ts//shop"], "src/shop.ts:1:1", async () => "sold");
  const worker = await work(store, { workflows: [shop] });
  onTestFinished(async () => {
    await worker.stop();
    await store.close();
  });
  await expect.poll(async () => (await store.runs.workers()).length).toBe(1);
  const start = { verb: "start", id: run, workflow: stored, input: "[]", fingerprint: sha256("[]"), creator: "test" } as const;
  await store.commit({ run: { ...start, parent: null, retentionMs: null, first: null } });
  const record = (await store.runs.read(run)) ?? expect.fail("the run is there");
  warnIfOverdue(store, [{ ...record, wakeAt: (record.wakeAt ?? 0) - 60_000 }]);
  await expect.poll(() => warnings.length).toBe(1);
  return warnings[0]?.message ?? "";
}

test("an id of version 0.1 with a path from another folder: the warning advises to start a worker from that folder", async () => {
  const message = await warningAbout("workflow//src/shop.ts//shop", "r-1");
  expect(message).toContain('A live worker has "workflow//acme//src/shop.ts//shop", which may be the same function');
  expect(message).toMatch(/start a worker from the folder that .* was started from, or set ONCEFLOW_ROOT to that folder/);
  expect(await warningAbout("workflow//../code/shop/src/shop.ts//shop", "r-2")).toContain(
    '"workflow//acme//src/shop.ts//shop", which may be',
  );
});

test("an id of version 0.1 of a function that no live worker has: the warning advises to start a worker with it, from that folder", async () => {
  const message = await warningAbout("workflow//src/orders.ts//shop", "r-3");
  expect(message).toContain("No live worker has this workflow: call configure({ worker: true })");
  expect(message).toContain("ONCEFLOW_ROOT");
  expect(message).not.toContain("acme");
});

test("for other names the warning does not mention folders", async () => {
  for (const [run, name] of Object.entries({ "r-4": "order", "r-5": "workflow//acme//src/orders.ts//order" })) {
    const message = await warningAbout(name, run);
    expect(message).toContain("No live worker has this workflow: call configure({ worker: true })");
    expect(message).not.toContain("ONCEFLOW_ROOT");
  }
});
