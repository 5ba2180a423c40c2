import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { effectKeyOf } from "../../src/core/ledger/key.js";
import { createStore } from "../../src/core/store/create-store.js";
import type { Store } from "../../src/core/store/store.js";
import { currentAttempt, type IdempotentOptions, idempotent } from "../../src/exports/http.js";
import { type CrashPoint, EffectLedger, Random, withCrashPoint } from "../../src/exports/testing.js";
import { createMemoryLedger, memoryBackend } from "../../src/stores/memory/backend.js";
import { open } from "../../src/stores/open.js";
import { type Weather, withFaults } from "../../src/testing/simulator/faults.js";
import { SimulatedProcess, World } from "../../src/testing/simulator/world.js";
import { callsIn } from "../kit/effects.js";
import { effort } from "../kit/effort.js";
import { letTimePass } from "../kit/real-time.js";
import { temporaryFolder } from "../kit/temporary-folder.js";
import { muteWarnings } from "../kit/warnings.js";

muteWarnings("ONCEFLOW_NOT_SAVED");

/**
 * Clients send the same request again and again, at once, late and out of order, to processes that crash, stall and lose
 * messages. In every history all responses of a key have the same bytes, and its effect was applied once.
 */
interface Operation {
  readonly key: string;
  readonly effect: "keyed" | "atMostOnce";
  readonly answers: Set<string>;
}

/** The provider deduplicates `keyed` operations. */
function handlerOn(
  store: Store,
  operation: Operation,
  effects: EffectLedger,
  work: () => Promise<void>,
  more: Partial<IdempotentOptions> = {},
) {
  return idempotent(
    async (request) => {
      const { effectKey = "", number = 0 } = currentAttempt() ?? {};
      const body = await request.text();
      await work();
      effects.call(effectKey, { attempt: number, result: undefined });
      await work();
      // The response contains the attempt number, so responses of two attempts would differ.
      return new Response(Buffer.from([255, number, ...Buffer.from(body)]), { status: 201 });
    },
    { store, scope: "", effect: operation.effect, ...more },
  );
}

const requestOf = ({ key }: Operation) =>
  new Request("http://shop.test/orders", { method: "POST", headers: { "idempotency-key": key }, body: `body of ${key}` });

/** Returns whether the client stops retrying after this response. */
async function isFinal(operation: Operation, response: Response): Promise<boolean> {
  const { status } = response;
  const bytes = Buffer.from(await response.arrayBuffer());
  if (status === 201) operation.answers.add(bytes.toString("hex"));
  const { type } = status === 409 ? (JSON.parse(bytes.toString()) as { type: string }) : { type: "" };
  if (![201, 409, 503].includes(status)) throw new Error(`unexpected response: ${status} ${bytes.toString()}`);
  return status === 201 || type.endsWith(":outcome-unknown");
}

function verify(seed: number, operations: readonly Operation[], effects: EffectLedger): void {
  for (const { key, effect, answers } of operations) {
    const effectKey = effectKeyOf("http POST /orders ", key);
    const attempts = effects.calls(effectKey).map(({ attempt }) => attempt);
    const about = `seed ${seed}: ${effect} ${key}, called by the attempts ${attempts}`;
    expect(answers.size, `${about}, has several responses`).toBeLessThanOrEqual(1);
    expect(new Set(attempts).size, about).toBe(attempts.length);
    if (answers.size === 1) expect(effects.applied(effectKey), about).toBe(1);
    if (effect === "atMostOnce") expect(attempts.length, about).toBeLessThanOrEqual(1);
  }
  expect(effects.keys().length).toBeLessThanOrEqual(operations.length);
}

describe("simulated HTTP", () => {
  async function simulateSeed(seed: number): Promise<{ readonly crashes: number; readonly answers: number; readonly calls: number }> {
    const random = new Random(seed);
    const world = new World(random);
    const ledger = createMemoryLedger(() => Math.floor(world.now()));
    const effects = new EffectLedger({ honoursKeys: true, now: () => world.now() });
    const leaseMs = random.pick([100, 300]);
    const bad = () => (random.chance(0.5) ? random.next() * 0.1 : 0);
    const weather: Weather = {
      ...{ crashBefore: bad(), crashAfter: bad(), loseRequest: bad(), loseReply: bad(), unreachable: bad(), pause: bad() },
      ...{ pauseMsMax: leaseMs * 4, latencyMsMax: random.pick([0, 3, 30]) },
    };
    let crashes = 0;
    const hosts: { process: SimulatedProcess; store: Store }[] = [];
    const hostAt = (slot: number) => {
      const current = hosts[slot];
      if (current && !current.process.dead) return current;
      if (current) crashes += 1;
      const process = new SimulatedProcess(world, slot);
      const backend = withFaults(memoryBackend(ledger), world, process, weather);
      hosts[slot] = { process, store: createStore(backend, { clock: process.clock, purgeEveryMs: 0 }) };
      return hosts[slot];
    };
    const operations = Array.from({ length: random.between(1, 3) }, (_, i): Operation => {
      return { key: `k-${i}`, effect: random.pick(["keyed", "keyed", "atMostOnce"]), answers: new Set() };
    });
    let waiting = 0;
    let broken: unknown;
    let answers = 0;
    const ask = async (operation: Operation, triesLeft: number): Promise<void> => {
      if (triesLeft === 0) return;
      const { process, store } = hostAt(random.between(0, 2));
      const work = () => new Promise<void>((resolve) => void process.clock.after(random.between(0, leaseMs), resolve));
      const onRunning = random.pick(["refuse", "wait"] as const);
      const handler = handlerOn(store, operation, effects, work, { leaseMs, onRunning, waitMs: leaseMs * 3 });
      const response = await Promise.race([handler(requestOf(operation)), died(process)]);
      answers += 1;
      // The client never sees a response that was lost.
      if (response !== undefined && !random.chance(0.1) && (await isFinal(operation, response))) return;
      await world.wait(random.between(0, leaseMs * 2));
      await ask(operation, triesLeft - 1);
    };
    const died = (process: SimulatedProcess) =>
      new Promise<undefined>((resolve) => {
        const look = () => (process.dead ? resolve(undefined) : void world.after(50, look));
        world.after(50, look);
      });
    for (let i = random.between(2, 8); i > 0; i--) {
      waiting += 1;
      const operation = random.pick(operations);
      world.after(random.between(0, leaseMs * 2), () => {
        ask(operation, 6).then(
          () => void waiting--,
          (error: unknown) => {
            broken ??= error;
          },
        );
      });
    }
    const ended = await world.run(() => waiting === 0 || broken !== undefined, 100_000);
    if (broken) throw new Error(`seed ${seed}: ${String(broken)}`, { cause: broken });
    expect(ended, `seed ${seed}: clients were still waiting`).toBe(true);
    verify(seed, operations, effects);
    return { crashes, answers, calls: callsIn(effects) };
  }

  const seeds = effort({ quick: 100, full: 300 });
  test(`keeps its promises in ${seeds} seeds`, { timeout: 300_000 }, async () => {
    const total = { crashes: 0, answers: 0, calls: 0 };
    for (let seed = 1; seed <= seeds; seed++) {
      const { crashes, answers, calls } = await simulateSeed(seed);
      total.crashes += crashes;
      total.answers += answers;
      total.calls += calls;
    }
    // A simulation without faults would prove nothing.
    expect(total.crashes).toBeGreaterThan(seeds / 3);
    expect(total.answers).toBeGreaterThan(total.calls);
  });

  test("keeps its promises on SQLite in real time", async () => {
    const folder = temporaryFolder(onTestFinished);
    const stores = await Promise.all([1, 2, 3].map(() => open(`sqlite:${join(folder, "ledger.db")}`, { stallMsMax: 0 })));
    onTestFinished(async () => {
      await Promise.all(stores.map((store) => store.close()));
    });
    // Without "after begin": a process that really dies there stops renewing its lease, and this process would not. The kill test kills real processes.
    const points: readonly CrashPoint[] = ["before begin", "before settle", "after settle"];
    let crashes = 0;
    const until = Date.now() + 60_000;
    for (let seed = 1; seed <= 15; seed++) {
      const random = new Random(seed);
      const effects = new EffectLedger({ honoursKeys: true });
      const operations = [0, 1, 2].map((i): Operation => ({ key: `k-${seed}-${i}`, effect: "keyed", answers: new Set() }));
      const ask = async (operation: Operation, mayCrash: boolean): Promise<void> => {
        await letTimePass(random.between(0, 20), "the interleavings are those of real time");
        const store = random.pick(stores);
        const dying = new Error("died");
        const die = () => {
          throw dying;
        };
        const used = mayCrash ? withCrashPoint(store, random.pick(points), die) : store;
        const handler = handlerOn(used, operation, effects, () => letTimePass(random.between(0, 5), "the same"), { leaseMs: 100 });
        const response = await handler(requestOf(operation)).catch((error: unknown) => {
          if (error !== dying) throw error;
          crashes += 1;
          return undefined;
        });
        if (response !== undefined && (await isFinal(operation, response))) return;
        if (Date.now() > until) throw new Error(`seed ${seed}: ${operation.key} got no response`);
        await ask(operation, false);
      };
      await Promise.all(operations.flatMap((operation) => Array.from({ length: 4 }, (_, i) => ask(operation, i < 2))));
      verify(seed, operations, effects);
      for (const { key, answers } of operations) expect(answers.size, `seed ${seed}: ${key}`).toBe(1);
      expect(effects.keys().map((key) => effects.applied(key))).toEqual([1, 1, 1]);
    }
    expect(crashes).toBeGreaterThan(20);
  });
});
