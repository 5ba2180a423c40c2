import type { ChildProcess } from "node:child_process";
import { join } from "node:path";
import { open, type Store } from "onceflow";
import { createRuntime } from "onceflow/graph";
import { type EffectServer, serveEffects } from "onceflow/testing";
import { describe, expect, inject, onTestFinished, test } from "vitest";
import { effort, isFull } from "../../kit/effort.js";
import { takeTurns } from "../../kit/heavy.js";
import { Program } from "../../kit/program.js";
import { letTimePass } from "../../kit/real-time.js";
import { temporaryFolder } from "../../kit/temporary-folder.js";
import { ownMongo } from "../../stores/mongodb/own-mongodb.js";
import { mortalPostgres } from "../../stores/postgres/mortal-postgres.js";
import { document, flow, leaseMs } from "../programs/kill-flow.js";

takeTurns();

/** ONCEFLOW_GRAPH_PACKETS=5000 runs the full experiment. */
const triggers = Number(process.env["ONCEFLOW_GRAPH_PACKETS"] ?? effort({ quick: 60, full: 150 }));
const mongoTriggers = 30;
const poisonEvery = 50;
const workers = 4;
const blowEveryMs = 300;
/** On a busy machine a new worker is killed before it makes progress; after this many kills and stops the workers are left alone. */
const blowsMax = triggers < 1000 ? 24 : 400;
/** After this many new effects the next kill comes sooner, so that fast workers do not finish before they are killed. */
const effectsPerBlow = Math.ceil((triggers * 3) / blowsMax);
const effectsOf = (id: string) => [`${id}-charge`, `${id}-ship`, `${id}-tell`];

interface Blows {
  kills: number;
  stops: number;
  /** Processes that did not renew for longer than their lease: stopped by this test, or starved by a busy machine. */
  readonly silent: Set<number>;
}

/** Two processes send every trigger; four workers deliver, and one of them is killed or stopped again and again until all executions have ended. */
async function runUnderBlows(
  url: string,
  provider: EffectServer,
  worse?: () => Promise<void>,
  count = triggers,
): Promise<{ store: Store; blows: Blows }> {
  const store = await open(url);
  onTestFinished(() => store.close());
  const blows: Blows = { kills: 0, stops: 0, silent: new Set() };
  const ready = new WeakSet<ChildProcess>();
  const start = (program: string, ...args: readonly string[]) => {
    const { child } = new Program(`graph/programs/${program}`, [url, ...args], { onEnd: onTestFinished });
    child.on("message", (message) => {
      if (message === "lost") blows.silent.add(child.pid as number);
    });
    return child.once("message", () => ready.add(child));
  };
  const worker = () => start("kill-worker", provider.url);
  const fleet = Array.from({ length: workers }, worker);
  const senders = Array.from({ length: 2 }, () => start("kill-trigger", String(count), String(poisonEvery)));
  const sent = Promise.all(senders.map(duplicatesOf));
  let allSent = false;
  void sent.then(() => {
    allSent = true;
  });
  while (!allSent || !(await allEnded(store))) {
    await nextBlow(provider);
    if (blows.kills + blows.stops >= blowsMax) continue;
    const i = Math.floor(Math.random() * workers);
    const victim = fleet[i] as ChildProcess;
    // Only workers that have started to deliver: on a busy machine the others would never get that far.
    if (!ready.has(victim)) continue;
    if ((blows.kills + blows.stops) % 4 === 3) {
      blows.stops += 1;
      blows.silent.add(victim.pid as number);
      victim.kill("SIGSTOP");
      fleet[i] = worker();
      void resumeAndKill(victim);
      continue;
    }
    victim.kill("SIGKILL");
    fleet[i] = worker();
    blows.kills += 1;
    if (blows.kills % 4 === 0) await worse?.();
  }
  // Every trigger was sent twice, so one of each two was answered as a duplicate.
  expect((await sent).reduce((sum, each) => sum + each, 0)).toBe(count);
  for (const child of fleet) child.kill("SIGKILL");
  return { store, blows };
}

/** Keeps a worker stopped for longer than its lease, lets it run for a while, then kills it. */
async function resumeAndKill(victim: ChildProcess): Promise<void> {
  await letTimePass(leaseMs * 1.7, "the lease of a stopped process ends on the clock of a real store");
  victim.kill("SIGCONT");
  await letTimePass(leaseMs * 0.8, "a process that has lost its lease tries to go on");
  victim.kill("SIGKILL");
}

async function nextBlow({ effects }: EffectServer): Promise<void> {
  const enough = effects.keys().length + effectsPerBlow;
  const until = Date.now() + blowEveryMs * (0.5 + Math.random());
  while (Date.now() < until && effects.keys().length < enough) await letTimePass(10, "a blow comes at a moment that no event chooses");
}

function duplicatesOf(sender: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    sender.once("message", (message: { duplicates: number }) => resolve(message.duplicates));
    sender.once("exit", (code) => reject(new Error(`a sender ended with ${code}`)));
  });
}

/** Returns false while the store itself is down. */
async function allEnded(store: Store): Promise<boolean> {
  try {
    return (await store.packets.executions({ status: "running", limit: 1 })).length === 0;
  } catch {
    return false;
  }
}

async function executionsOf({ packets }: Store) {
  const all: Awaited<ReturnType<typeof packets.executions>>[number][] = [];
  for (;;) {
    const last = all.at(-1);
    const page = await packets.executions({ flow, limit: 1000, ...(last && { before: { at: last.createdAt, no: last.no } }) });
    all.push(...page);
    if (page.length < 1000) return all;
  }
}

/** Counted at the provider: one applied effect per key, and no two calls of one key at a time. In the store: no packet is lost. */
async function verify(
  name: string,
  store: Store,
  { effects, overlaps }: EffectServer,
  { kills, stops, silent }: Blows,
  count = triggers,
): Promise<void> {
  const executions = await executionsOf(store);
  expect(executions).toHaveLength(count);
  expect(new Set(executions.map(({ key }) => key)).size).toBe(count);
  const meant = Array.from({ length: count }, (_, i) => `p${i}`).filter((_, i) => i % poisonEvery === 0);
  const dead = executions.filter((execution) => execution.dead > 0).map(({ key }) => key as string);
  expect(dead.sort()).toEqual(meant.sort());
  expect(executions.filter(({ open, duplicates }) => open !== 0 || duplicates !== 0)).toEqual([]);
  let calls = 0;
  for (let i = 0; i < count; i++)
    for (const key of effectsOf(`p${i}`)) {
      expect(effects.applied(key), key).toBe(1);
      const attempts = effects.calls(key).map(({ attempt }) => attempt);
      expect(new Set(attempts).size, `${key}: an attempt called twice`).toBe(attempts.length);
      calls += attempts.length;
    }
  // A request that a fenced process had already sent may arrive late, with the lower attempt number. It cannot be recalled.
  const unexplained = overlaps.filter(({ callers: [first, second] }) => {
    const [one, other] = [callOf(first), callOf(second)];
    return !silent.has(one.pid) && !silent.has(other.pid) && other.attempt > one.attempt;
  });
  expect(unexplained).toEqual([]);
  const left = (await store.packets.counts()).map(({ due, held, parts, owned }) => due + held + parts + owned);
  expect(left.reduce((sum, each) => sum + each, 0)).toBe(0);
  const letters = await (await createRuntime({ store, documents: [document], work: false })).deadLetters({ limit: 1000 });
  expect(new Set(letters.map(({ error }) => error.message))).toEqual(new Set(["meant to die"]));
  expect(kills).toBeGreaterThan(3);
  const counted = `${count} executions, ${count * 3} effects, ${calls} raw calls, ${overlaps.length} overlaps with one that was silent`;
  console.log(`${name}: ${kills} kills, ${stops} stops, ${counted}`);
}

function callOf(caller: string): { pid: number; attempt: number } {
  const [pid, , attempt] = caller.split(" ");
  return { pid: Number(pid), attempt: Number(attempt) };
}

async function slowProvider(): Promise<EffectServer> {
  const provider = await serveEffects({ honoursKeys: true, latencyMs: () => 5 + Math.random() * 20 });
  onTestFinished(() => provider.close());
  return provider;
}

describe(`${triggers} triggers, each sent twice, ${workers} workers, one killed or stopped about every ${blowEveryMs} ms`, () => {
  test("SQLite", { timeout: 1_200_000 }, async () => {
    const folder = temporaryFolder(onTestFinished);
    const provider = await slowProvider();
    const { store, blows } = await runUnderBlows(`sqlite:${join(folder, "packets.db")}`, provider);
    await verify("SQLite", store, provider, blows);
  });

  test.skipIf(!inject("postgres").ok)("PostgreSQL, itself killed and restarted three times", { timeout: 1_200_000 }, async (context) => {
    const { url, strike, restarts } = await mortalPostgres(context);
    const provider = await slowProvider();
    const { store, blows } = await runUnderBlows(url, provider, strike);
    expect(restarts()).toBeGreaterThan(0);
    await verify(`PostgreSQL, killed ${restarts()} times`, store, provider, blows);
  });

  // Fewer, because the emulator is slow. The quick tier has the crash table of packets on MongoDB.
  test.skipIf(!isFull || !inject("mongodb").ok)(
    "MongoDB (emulator), itself killed and restarted",
    { timeout: 1_200_000 },
    async ({ skip }) => {
      const server = await ownMongo();
      if (!server.ok) return skip(server.reason);
      onTestFinished(() => server.stop());
      const provider = await slowProvider();
      let strikes = 0;
      const { store, blows } = await runUnderBlows(
        server.url,
        provider,
        async () => {
          if (strikes < 2) await server.strike();
          strikes += 1;
        },
        mongoTriggers,
      );
      await verify("MongoDB (emulator)", store, provider, blows, mongoTriggers);
    },
  );
});
