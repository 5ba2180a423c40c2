import { type ChildProcess, fork } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { open, type Store } from "onceflow";
import { type EffectServer, serveEffects } from "onceflow/testing";
import { workflow } from "onceflow/workflow";
import { getRun, readJournal, start } from "onceflow/workflow/api";
import { expect, onTestFinished, test } from "vitest";
import { takeTurns } from "./heavy.js";
import type { Death } from "./programs/poison-worker.js";
import { until } from "./workflow-scene.js";

takeTurns();

const program = new URL("../.build/test/programs/poison-worker.js", import.meta.url);
const elsewhere = async (): Promise<never> => Promise.reject(new Error("this process must not execute it"));
const healthy = workflow("healthy", elsewhere as () => Promise<number>);
const poison = workflow("poison", elsewhere as (death: Death) => Promise<void>);
const early = workflow("early", elsewhere as () => Promise<string>);

const healthyRuns = 100;

/** Workers that are started again whenever they die, as a supervisor does. */
class Supervised {
  deaths = 0;
  #stopped = false;
  readonly #fleet = new Set<ChildProcess>();

  constructor(workers: number, args: readonly string[]) {
    for (let i = 0; i < workers; i++) this.#spawn(args);
    onTestFinished(() => this.stop());
  }

  #spawn(args: readonly string[]): void {
    if (this.#stopped) return;
    const worker = fork(program, args, { execArgv: ["--max-old-space-size=64"], stdio: ["ignore", "ignore", "ignore", "ipc"] });
    this.#fleet.add(worker);
    worker.once("exit", () => {
      this.#fleet.delete(worker);
      if (this.#stopped) return;
      this.deaths += 1;
      this.#spawn(args);
    });
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    const ends = [...this.#fleet].map((worker) => new Promise<void>((end) => void worker.once("exit", () => end())));
    for (const worker of this.#fleet) worker.kill("SIGKILL");
    await Promise.all(ends);
  }
}

interface Place {
  readonly url: string;
  readonly store: Store;
  readonly provider: EffectServer;
}

async function place(): Promise<Place> {
  const folder = mkdtempSync(join(tmpdir(), "onceflow-poison-"));
  const url = `sqlite:${join(folder, "runs.db")}`;
  const provider = await serveEffects({ honoursKeys: true, latencyMs: () => 20 });
  const store = await open(url);
  onTestFinished(async () => {
    await store.close();
    await provider.close();
    rmSync(folder, { recursive: true, force: true });
  });
  return { url, store, provider };
}

/** All healthy runs have ended well: no step of theirs failed, and each effect was applied once. */
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
  // In no step: the default of crashMax counts.
  { workers: 3, death: "code", deaths: 11 },
];

test.for(cases)(
  `one run among ${healthyRuns} healthy ones kills its process by $death, $workers supervised workers`,
  { timeout: 300_000 },
  async ({ workers, death, deaths }) => {
    const { url, store, provider } = await place();
    const ids = Array.from({ length: healthyRuns }, (_, i) => `healthy-${i}`);
    await Promise.all(ids.slice(0, 50).map((id) => start(healthy, [], { id, store })));
    await start(poison, [death], { id: "poison", store });
    await Promise.all(ids.slice(50).map((id) => start(healthy, [], { id, store })));
    const supervised = new Supervised(workers, [url, provider.url]);
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

test("a promise that rejects before it is awaited ends no worker, and the run goes on to catch it", { timeout: 60_000 }, async () => {
  const { url, store, provider } = await place();
  const supervised = new Supervised(2, [url, provider.url]);
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
