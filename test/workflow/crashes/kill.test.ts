import { join } from "node:path";
import { open, type Store } from "onceflow";
import { type EffectServer, serveEffects } from "onceflow/testing";
import { workflow } from "onceflow/workflow";
import { getRun, listRuns, readJournal, start } from "onceflow/workflow/api";
import { describe, expect, inject, onTestFinished, test } from "vitest";
import { callsIn } from "../../kit/effects.js";
import { effort } from "../../kit/effort.js";
import { takeTurns } from "../../kit/heavy.js";
import { Program } from "../../kit/program.js";
import { letTimePass } from "../../kit/real-time.js";
import { temporaryFolder } from "../../kit/temporary-folder.js";
import { mortalPostgres } from "../../stores/postgres/mortal-postgres.js";

takeTurns();

const runs = effort({ quick: 50, full: 500 });
const stepsPerRun = 5;
const workers = 4;
/** One worker is killed each time this many more calls have reached the provider, however long that takes. */
const callsPerKill = effort({ quick: 20, full: 40 });

/** Has the same name as in the workers; this process only starts it and must never execute it. */
const killed = workflow("killed", async (): Promise<number> => Promise.reject(new Error("this process must not execute it")));

interface Weather {
  /** Called at every fourth kill, to make a second thing fail. */
  readonly worse?: () => Promise<void>;
}

/** Starts all runs, then kills a random worker again and again until all runs have ended. */
async function killUntilDone(url: string, provider: EffectServer, { worse }: Weather = {}): Promise<{ store: Store; kills: number }> {
  const store = await open(url);
  onTestFinished(() => store.close());
  await Promise.all(Array.from({ length: runs }, (_, i) => start(killed, [], { id: `killed-${i}`, store })));
  // Only workers that are ready are killed: on a busy machine the others would never get to do any work.
  const ready = new WeakSet<Program>();
  const spawn = () => {
    const worker = new Program("workflow/programs/kill-worker", [url, provider.url], { onEnd: onTestFinished });
    worker.child.once("message", () => ready.add(worker));
    return worker;
  };
  const fleet = Array.from({ length: workers }, spawn);
  let kills = 0;
  let killAt = callsPerKill;
  const isTime = () => callsIn(provider.effects) >= killAt;
  while (!(await allEnded(store))) {
    if (!isTime()) {
      await letTimePass(20, "polls a store that may be down");
      continue;
    }
    const victim = Math.floor(Math.random() * workers);
    if (!ready.has(fleet[victim] as Program)) continue;
    void fleet[victim]?.kill();
    fleet[victim] = spawn();
    kills += 1;
    killAt = callsIn(provider.effects) + callsPerKill;
    if (kills % 4 === 0) await worse?.();
  }
  await Promise.all(fleet.map((worker) => worker.kill()));
  return { store, kills };
}

/** The store itself may be down at the moment: then not all runs have ended. */
async function allEnded(store: Store): Promise<boolean> {
  try {
    for (const status of ["pending", "running"] as const) if ((await listRuns({ store, status, limit: 1 })).items.length > 0) return false;
    return true;
  } catch {
    return false;
  }
}

/** Counts at the provider: one applied effect per step, and each call belongs to an attempt in the journal. */
async function tally(store: Store, { effects }: EffectServer): Promise<{ attempts: number; calls: number; takeovers: number }> {
  const sum = { attempts: 0, calls: 0, takeovers: 0 };
  for (let i = 0; i < runs; i++) {
    const id = `killed-${i}`;
    expect(await getRun(id, { store }).returnValue).toBe(15);
    const journal = await readJournal(id, { store });
    sum.takeovers += journal.filter(({ type }) => type === "claim").length;
    // Attempt 0 is a call that was requested but not begun: its worker released the run to execute a suspect alone.
    const started = journal.filter(({ type, attempt = 0 }) => type === "step" && attempt > 0);
    const stepIds = new Set(started.map(({ stepId }) => stepId as string));
    expect(stepIds.size).toBe(stepsPerRun);
    for (const stepId of stepIds) {
      const numbers = started.filter((item) => item.stepId === stepId).map(({ attempt }) => attempt);
      const called = effects.calls(stepId).map(({ attempt }) => attempt);
      expect(numbers).toEqual(numbers.map((_, n) => n + 1));
      expect(new Set(called).size, `${id}: an attempt called twice`).toBe(called.length);
      expect(numbers).toEqual(expect.arrayContaining(called));
      expect(effects.applied(stepId)).toBe(1);
      expect(journal.filter(({ type, stepId: of }) => type === "done" && of === stepId)).toHaveLength(1);
      sum.attempts += numbers.length;
      sum.calls += called.length;
    }
  }
  return sum;
}

async function slowProvider(): Promise<EffectServer> {
  const provider = await serveEffects({ honoursKeys: true, latencyMs: () => 10 + Math.random() * 50 });
  onTestFinished(() => provider.close());
  return provider;
}

describe(`${runs} runs of ${stepsPerRun} steps, ${workers} workers, one killed every ${callsPerKill} calls`, () => {
  test("SQLite", { timeout: 600_000 }, async () => {
    const folder = temporaryFolder(onTestFinished);
    const provider = await slowProvider();
    const { store, kills } = await killUntilDone(`sqlite:${join(folder, "runs.db")}`, provider);
    report("SQLite", kills, await tally(store, provider));
  });

  test.skipIf(!inject("postgres").ok)("PostgreSQL, itself killed and restarted three times", { timeout: 600_000 }, async (context) => {
    const { url, strike, restarts } = await mortalPostgres(context);
    const provider = await slowProvider();
    const { store, kills } = await killUntilDone(url, provider, { worse: strike });
    expect(restarts()).toBe(3);
    report("PostgreSQL", kills, await tally(store, provider));
  });
});

function report(name: string, kills: number, { attempts, calls, takeovers }: { attempts: number; calls: number; takeovers: number }): void {
  expect(kills).toBeGreaterThan((runs * stepsPerRun) / callsPerKill / 4);
  console.log(`${name}: ${kills} kills, ${takeovers} take-overs, ${runs * stepsPerRun} steps, ${attempts} attempts, ${calls} raw calls`);
}
