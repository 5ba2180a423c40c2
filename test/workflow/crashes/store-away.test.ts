import { open, type Store, UnreachableError } from "onceflow";
import { step, type Worker, work, workflow } from "onceflow/workflow";
import { start } from "onceflow/workflow/api";
import { expect, onTestFinished, test } from "vitest";
import { ManualClock } from "../../../src/testing/contract/manual-clock.js";
import { thrownBy } from "../../kit/thrown-by.js";
import { settled } from "../../kit/until.js";

/** A store that is unreachable until comeBack() is called. */
async function absentStore(clock: ManualClock) {
  const store = await open("memory:", { clock, purgeEveryMs: 0 });
  let away = true;
  const refused = () => Promise.reject(new UnreachableError("away"));
  const commit = (batch: never) => (away ? refused() : store.commit(batch));
  const claim: Store["runs"]["claim"] = (query) => (away ? refused() : store.runs.claim(query));
  const runs = Object.create(store.runs, { claim: { value: claim } }) as unknown;
  const absent = Object.create(store, { commit: { value: commit }, runs: { value: runs } }) as Store;
  onTestFinished(() => store.close());
  return { store: absent, comeBack: () => (away = false) };
}

test("start in a process with a worker gives up after ten seconds, and the same start succeeds once the store is back", async () => {
  const clock = new ManualClock();
  const { store, comeBack } = await absentStore(clock);
  let charges = 0;
  const charge = step("charge when the store is back", async () => (charges += 1));
  const order = workflow("order when the store is back", async () => await charge());
  const worker: Worker = await work(store, { workflows: [order], pollMs: 1000 });
  const starting = thrownBy(start(order, [], { id: "order", store }));
  await clock.pass(15_000);
  expect(await starting).toBeInstanceOf(UnreachableError);
  expect((await starting).message).toContain("away");
  comeBack();
  await clock.pass(5000);
  const again = start(order, [], { id: "order", store });
  await clock.pass(2000);
  const value = (await again).returnValue;
  await clock.pass(2000);
  expect(await value).toBe(1);
  expect(charges).toBe(1);
  await Promise.all([worker.stop({ graceMs: 0 }), clock.pass(2000)]);
});

test("start in a process without a worker gives up after ten seconds", async () => {
  const clock = new ManualClock();
  const { store } = await absentStore(clock);
  const order = workflow("order without a worker", async () => 1);
  const starting = thrownBy(start(order, [], { id: "order", store }));
  await settled();
  await clock.pass(11_000);
  expect(await starting).toBeInstanceOf(UnreachableError);
});
