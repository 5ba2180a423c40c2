import { join } from "node:path";
import { open, type Store } from "onceflow";
import { type EffectServer, serveEffects } from "onceflow/testing";
import { workflow } from "onceflow/workflow";
import { getRun, readJournal, start } from "onceflow/workflow/api";
import { expect, onTestFinished, test } from "vitest";
import { effort, sample } from "../../kit/effort.js";
import { takeTurns } from "../../kit/heavy.js";
import { bundleOf } from "../../kit/program.js";
import { Supervised } from "../../kit/supervised.js";
import { temporaryFolder } from "../../kit/temporary-folder.js";
import { until } from "../../kit/until.js";
import type { Death } from "../programs/poison-worker.js";

takeTurns();

const program = bundleOf("workflow/programs/poison-worker");
const elsewhere = async (): Promise<never> => Promise.reject(new Error("this process must not execute it"));
const healthy = workflow("healthy", elsewhere as () => Promise<number>);
const poison = workflow("poison", elsewhere as (death: Death) => Promise<void>);
const early = workflow("early", elsewhere as () => Promise<string>);

const healthyRuns = effort({ quick: 30, full: 100 });

function supervise(workers: number, args: readonly string[]): Supervised {
  return new Supervised({ onTestFinished }, { program, args, processes: workers, execArgv: ["--max-old-space-size=64"] });
}

interface Place {
  readonly url: string;
  readonly store: Store;
  readonly provider: EffectServer;
}

async function place(): Promise<Place> {
  const folder = temporaryFolder(onTestFinished);
  const url = `sqlite:${join(folder, "runs.db")}`;
  const provider = await serveEffects({ honoursKeys: true, latencyMs: () => 20 });
  const store = await open(url);
  onTestFinished(async () => {
    await store.close();
    await provider.close();
  });
  return { url, store, provider };
}

/** All healthy runs have completed: none of their steps failed, and each effect was applied once. */
async function expectHealthy(store: Store, { effects }: EffectServer, ids: readonly string[]): Promise<void> {
  for (const id of ids) {
    expect(await getRun(id, { store }).returnValue).toBe(6);
    const journal = await readJournal(id, { store });
    expect(journal.filter(({ type }) => type === "fail")).toEqual([]);
    const stepIds = new Set(journal.flatMap(({ stepId }) => stepId ?? []));
    expect(stepIds.size).toBe(3);
    for (const stepId of stepIds) expect(effects.applied(stepId)).toBe(1);
  }
}

const cases: readonly { workers: number; death: Death; deaths: number }[] = [
  { workers: 1, death: "exit", deaths: 3 },
  { workers: 1, death: "memory", deaths: 3 },
  { workers: 3, death: "exception", deaths: 3 },
  // Dies outside of a step: the default of crashMax counts.
  { workers: 3, death: "code", deaths: 11 },
];

test.for(sample(cases, 2))(
  `one run among ${healthyRuns} healthy ones kills its process by $death, with $workers supervised workers`,
  { timeout: 300_000 },
  async ({ workers, death, deaths }) => {
    const { url, store, provider } = await place();
    const ids = Array.from({ length: healthyRuns }, (_, i) => `healthy-${i}`);
    await Promise.all(ids.slice(0, healthyRuns / 2).map((id) => start(healthy, [], { id, store })));
    await start(poison, [death], { id: "poison", store });
    await Promise.all(ids.slice(healthyRuns / 2).map((id) => start(healthy, [], { id, store })));
    const supervised = supervise(workers, [url, provider.url]);
    await until("all runs have ended or are parked", async () => await isOver(store, [...ids, "poison"]), 290_000);
    await expectHealthy(store, provider, ids);
    expect(await getRun("poison", { store }).status).toBe("parked");
    expect(await getRun("poison", { store }).trouble).toContain(`died ${deaths} times`);
    console.log(`${death}, ${workers} workers: ${supervised.deaths} deaths, ${healthyRuns} healthy runs completed`);
  },
);

async function isOver(store: Store, ids: readonly string[]): Promise<boolean> {
  const runs = await Promise.all(ids.map((id) => store.runs.read(id)));
  return runs.every((run) => run?.status === "parked" || run?.endedAt != null);
}

test("a promise that rejects before it is awaited does not end its worker, and the run can still catch the error", async () => {
  const { url, store, provider } = await place();
  const supervised = supervise(2, [url, provider.url]);
  await Promise.all(Array.from({ length: 6 }, (_, i) => start(healthy, [], { id: `healthy-${i}`, store })));
  const run = await start(early, [], { id: "early", store });
  expect(await run.returnValue).toMatch(/caught: .*card declined/);
  await expectHealthy(
    store,
    provider,
    Array.from({ length: 6 }, (_, i) => `healthy-${i}`),
  );
  expect(supervised.deaths).toBe(0);
});
