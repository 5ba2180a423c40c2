import { key, once, type Store } from "onceflow";
import { create, type Flow } from "onceflow/flow";
import type { Contender } from "../measure.js";

/** Steps of the flow without a key: enough that the fixed cost of a run does not count. */
export const plainSteps = 10;
/** Runs per call: a single run would end before the clock advances. */
export const plainRuns = 100;
export const keyedSteps = 3;

export const names = {
  byHand: "functions called by hand",
  flow: "onceflow flow",
  once: "onceflow once: one begin, one settle",
  notDurable: "flow, durable: false",
  durable: "flow, durable",
  replayed: "flow, replayed",
} as const;

const functions = Array.from({ length: plainSteps }, () => async (_: unknown) => {});

/** Both contenders do the same: they call ten async functions that do nothing, one after another. */
export function plainContenders(): Contender[] {
  const flow = flowOf(plainSteps);
  const byHand = async () => {
    const context = { input: undefined };
    for (const fn of functions) await fn(context);
  };
  return [
    { name: names.flow, work: () => repeat(() => flow.run(undefined)) },
    { name: names.byHand, work: () => repeat(byHand) },
  ];
}

async function repeat(work: () => Promise<unknown>): Promise<void> {
  for (let i = 0; i < plainRuns; i++) await work();
}

/** Three steps under a fresh key, beside the minimum that a key costs: a begin and a settle. */
export async function keyedContenders(store: Store): Promise<Contender[]> {
  const flow = flowOf(keyedSteps, store);
  const count = () => store.metrics.flushes;
  const fresh = (prefix: string) => {
    let made = 0;
    return () => {
      made += 1;
      return `${prefix}:${made}`;
    };
  };
  const [onceKeys, durableKeys, otherKeys] = [fresh("once"), fresh("durable"), fresh("not durable")];
  await flow.run(order, { key: "settled" });
  return [
    { name: names.once, count, work: () => once(store, { key: key.of(onceKeys()), input: order }, async () => result) },
    { name: names.notDurable, count, work: () => flow.run(order, { key: otherKeys(), durable: false }) },
    { name: names.durable, count, work: () => flow.run(order, { key: durableKeys() }) },
    { name: names.replayed, count, work: () => flow.run(order, { key: "settled" }) },
  ];
}

const order = { id: "order-1", amount: 4200 };
/** As large as the result of a flow of three steps. */
const result = Array.from({ length: keyedSteps }, (_, i) => ({ name: `step ${i}`, status: "completed", attempts: 1, durationMs: 0.01 }));

function flowOf(steps: number, store?: Store): Flow {
  const flow = create("bench", store ? { idempotency: store } : {});
  for (const [i, fn] of functions.slice(0, steps).entries()) flow.step(`step ${i}`, fn);
  return flow;
}
