import { describe, expect, test } from "vitest";
import { effectKeyOf } from "../../src/core/ledger/key.js";
import { type NamedOperation, operation } from "../../src/core/ledger/named-operation.js";
import { wasAlone } from "../../src/core/ledger/owner.js";
import { createStore } from "../../src/core/store/create-store.js";
import type { Store } from "../../src/core/store/store.js";
import { suspectDeaths } from "../../src/core/work/in-hand.js";
import { serveOperation } from "../../src/exports/http.js";
import { createInbox, type Handled } from "../../src/exports/inbox.js";
import { EffectLedger, Random } from "../../src/exports/testing.js";
import { createMemoryLedger, memoryBackend } from "../../src/stores/memory/backend.js";
import { type Weather, withFaults } from "../../src/testing/simulator/faults.js";
import { never, SimulatedProcess, World } from "../../src/testing/simulator/world.js";
import { effort } from "../kit/effort.js";
import { simulateSeeds } from "../kit/seeds.js";
import { muteWarnings } from "../kit/warnings.js";

muteWarnings("ONCEFLOW_NOT_SAVED");

/**
 * A broker and clients request the same operations as copies, late, out of order and concurrently, from processes that crash,
 * stall and lose messages, with handlers that fail or kill their process. In every history an operation has one outcome, the
 * same bytes for every caller, its effect was applied once, and no attempt begins after a caller got the outcome.
 */
interface Order {
  readonly id: string;
  /** Poison always kills its process; other orders fail `failuresLeft` times before they succeed. */
  readonly poison: boolean;
  failuresLeft: number;
}

interface OrderLog {
  readonly answers: Set<string>;
  /** Start times of the attempts by the store's clock: a stalled attempt may call late. */
  readonly began: number[];
  firstAnswerAt: number;
  died: boolean;
  /** Number of processes that it has killed. */
  killed: number;
}

interface Totals {
  crashes: number;
  answers: number;
  calls: number;
  dead: number;
  retried: number;
  held: number;
}

const attemptsMax = 3;
const scope = "operation charge ";

class Storm {
  readonly random: Random;
  readonly world: World;
  readonly effects: EffectLedger;
  readonly logs = new Map<string, OrderLog>();
  readonly totals: Totals = { crashes: 0, answers: 0, calls: 0, dead: 0, retried: 0, held: 0 };
  readonly leaseMs: number;
  readonly #ledger: ReturnType<typeof createMemoryLedger>;
  readonly #hosts: { process: SimulatedProcess; store: Store }[] = [];
  #weather: Weather;

  constructor(seed: number) {
    this.random = new Random(seed);
    this.world = new World(this.random);
    this.#ledger = createMemoryLedger(() => Math.floor(this.world.now()));
    this.effects = new EffectLedger({ honoursKeys: true, now: () => this.world.now() });
    this.leaseMs = this.random.pick([100, 300]);
    const bad = () => (this.random.chance(0.5) ? this.random.next() * 0.1 : 0);
    this.#weather = {
      ...{ crashBefore: bad(), crashAfter: bad(), loseRequest: bad(), loseReply: bad(), unreachable: bad(), pause: bad() },
      ...{ pauseMsMax: this.leaseMs * 4, latencyMsMax: this.random.pick([0, 3, 30]) },
    };
  }

  /** Ends all faults. */
  calm(): void {
    const still = { crashBefore: 0, crashAfter: 0, loseRequest: 0, loseReply: 0, unreachable: 0, pause: 0 };
    this.#weather = { ...still, pauseMsMax: 1, latencyMsMax: 0 };
    for (const host of this.#hosts) if (host) host.process.dead = true;
  }

  /** One of three processes. A dead one is replaced. */
  host(): { readonly process: SimulatedProcess; readonly store: Store } {
    const slot = this.random.between(0, 2);
    const current = this.#hosts[slot];
    if (current && !current.process.dead) return current;
    if (current) this.totals.crashes += 1;
    const process = new SimulatedProcess(this.world, slot);
    const backend = withFaults(memoryBackend(this.#ledger), this.world, process, this.#weather);
    const host = { process, store: createStore(backend, { clock: process.clock, purgeEveryMs: 0 }) };
    this.#hosts[slot] = host;
    return host;
  }

  /** Number of attempts that count: the handler threw, or its process died while it handled nothing else. */
  async countedAgainst({ id }: Order): Promise<number> {
    const past = await memoryBackend(this.#ledger).attempts({ scope, key: id, afterAttempt: 0, limit: 1000 });
    return past.filter((entry) => entry.verdict === "threw" || (entry.verdict === "lapsed" && wasAlone(entry))).length;
  }

  of({ id }: Order): OrderLog {
    const log = this.logs.get(id) ?? {
      answers: new Set<string>(),
      began: [],
      firstAnswerAt: Number.POSITIVE_INFINITY,
      died: false,
      killed: 0,
    };
    this.logs.set(id, log);
    return log;
  }

  hear(order: Order, bytes: string): void {
    const log = this.of(order);
    log.answers.add(bytes);
    log.firstAnswerAt = Math.min(log.firstAnswerAt, this.world.now());
  }

  operationOn(process: SimulatedProcess, mayFail = true): NamedOperation<Order, unknown> {
    const work = () => new Promise<void>((go) => void process.clock.after(this.random.between(0, this.leaseMs), go));
    return operation({
      name: "charge",
      key: ({ id }: Order) => id,
      fingerprint: ({ id }) => id,
      leaseMs: this.leaseMs,
      effect: "keyed",
      run: async (order, { effectKey, number, startedAt }) => {
        this.of(order).began.push(startedAt.getTime());
        await work();
        if (process.dead) return await never();
        this.effects.call(effectKey, { attempt: number, result: undefined });
        if (order.poison && mayFail) {
          this.of(order).killed += 1;
          process.dead = true;
          return await never();
        }
        if (mayFail && order.failuresLeft-- > 0) throw new Error("declined");
        await work();
        // The result contains the attempt number, so results of two attempts would differ.
        return { order: order.id, attempt: number, at: this.world.now() };
      },
    });
  }

  /** A dead process never answers. */
  async asked<Answer>(process: SimulatedProcess, answer: Promise<Answer>): Promise<Answer | undefined> {
    let over = false;
    const died = new Promise<undefined>((go) => {
      const look = () => (over ? undefined : process.dead ? go(undefined) : void this.world.after(50, look));
      look();
    });
    try {
      return await Promise.race([answer.catch(storeFailed), died]);
    } finally {
      over = true;
    }
  }
}

/** An error of the store: the caller tries again. Any other error is a bug. */
function storeFailed(error: unknown): undefined {
  const { code } = error as { readonly code?: string };
  if (code !== "STORE_UNREACHABLE" && code !== "NOT_KNOWN") throw error;
}

const messageOf = (order: Order) => ({ id: `m-${order.id}`, payload: order.id });

/** Delivers a message as a broker does: again and again until it is acknowledged. */
async function deliver(storm: Storm, order: Order): Promise<void> {
  for (;;) {
    const { process, store } = storm.host();
    const inbox = createInbox(store, {
      ...{ consumer: "billing", operation: storm.operationOn(process), input: () => order },
      ...{ attemptsMax, backoffMs: 20, waitMs: storm.leaseMs * 2, leaseMs: storm.leaseMs },
    });
    // Some deliveries are batches with copies, so that bugs with copies in a batch are found too.
    const batch = storm.random.chance(0.3);
    const handling = batch
      ? inbox.handleBatch([messageOf(order), messageOf(order)]).then(([first]) => first)
      : inbox.handle(messageOf(order));
    const handled = await storm.asked(process, handling);
    storm.totals.answers += 1;
    const acknowledged = handled !== undefined && take(storm, order, handled);
    // The broker never sees an acknowledgement that was lost.
    if (acknowledged && !storm.random.chance(0.1)) return;
    await storm.world.wait(storm.random.between(0, storm.leaseMs * 2));
  }
}

function take(storm: Storm, order: Order, handled: Handled): boolean {
  switch (handled.status) {
    case "processed":
    case "duplicate":
      storm.hear(order, JSON.stringify(handled.result));
      return true;
    case "dead":
      storm.of(order).died = true;
      return true;
    case "held":
      storm.totals.held += 1;
      expect(handled.unknown).toBeUndefined();
      return false;
    case "retry":
      return false;
  }
}

/** A client of the route. It gives up after some tries, because a route has no dead letters. */
async function request(storm: Storm, order: Order, triesLeft = 6): Promise<void> {
  if (triesLeft === 0) return;
  const { process, store } = storm.host();
  const onRunning = storm.random.pick(["refuse", "wait"] as const);
  const route = serveOperation(storm.operationOn(process), { store, input: () => order, onRunning, waitMs: storm.leaseMs });
  const answering = route(new Request("http://shop.test/", { method: "POST" })).catch((error: Error & { readonly code?: string }) => {
    // The handler failed, or the stored outcome is the inbox's dead letter, which the route replays.
    if (error.message !== "declined" && error.code !== "ATTEMPTS_EXHAUSTED") throw error;
    return undefined;
  });
  const response = await storm.asked(process, answering);
  storm.totals.answers += 1;
  if (response?.status === 200) return storm.hear(order, await response.text());
  if (response !== undefined) expect([409, 503]).toContain(response.status);
  await storm.world.wait(storm.random.between(0, storm.leaseMs * 2));
  await request(storm, order, triesLeft - 1);
}

/** Retries a dead letter under the same faults until it is processed. */
async function retryDeadLetter(storm: Storm, order: Order): Promise<void> {
  for (;;) {
    const { process, store } = storm.host();
    const inbox = createInbox(store, {
      ...{ consumer: "billing", operation: storm.operationOn(process, false), input: () => order, leaseMs: storm.leaseMs },
    });
    const dead = await storm.asked(process, inbox.deadLetter(order.id));
    if (dead !== undefined) expect(dead.message).toEqual(messageOf(order));
    const handled = await storm.asked(process, inbox.retry(order.id));
    if (handled?.status === "processed") storm.totals.retried += 1;
    if (handled?.status === "processed" || handled?.status === "duplicate") return storm.hear(order, JSON.stringify(handled.result));
    await storm.world.wait(storm.random.between(0, storm.leaseMs * 2));
  }
}

async function all(storm: Storm, seed: number, work: readonly (() => Promise<void>)[]): Promise<void> {
  let waiting = work.length;
  let broken: unknown;
  for (const each of work)
    storm.world.after(storm.random.between(0, storm.leaseMs * 2), () => {
      each().then(
        () => void waiting--,
        (error: unknown) => {
          broken ??= error;
        },
      );
    });
  const ended = await storm.world.run(() => waiting === 0 || broken !== undefined, storm.world.steps + 100_000);
  if (broken) throw new Error(`seed ${seed}: ${String(broken)}`, { cause: broken });
  expect(ended, `seed ${seed}: a caller was still waiting`).toBe(true);
}

async function simulateSeed(seed: number): Promise<Totals> {
  const storm = new Storm(seed);
  const { random, effects } = storm;
  const orders = Array.from({ length: random.between(1, 3) }, (_, i): Order => {
    return { id: `o-${i}`, poison: random.chance(0.15), failuresLeft: random.pick([0, 0, 1, 2, 5]) };
  });
  const messages = orders.flatMap((order) => Array.from({ length: random.between(1, 3) }, () => () => deliver(storm, order)));
  const requests = orders
    .filter(({ poison }) => !poison)
    .flatMap((order) => Array.from({ length: random.between(0, 3) }, () => () => request(storm, order)));
  await all(storm, seed, [...messages, ...requests]);

  const dead = orders.filter((order) => storm.of(order).died);
  storm.totals.dead = dead.length;
  for (const order of dead) {
    // Either the last attempt threw and made the dead letter, or there was no further attempt because the limit was reached.
    const against = await storm.countedAgainst(order);
    expect(against, `seed ${seed}: ${JSON.stringify(order)} is dead`).toBeGreaterThanOrEqual(order.poison ? attemptsMax : attemptsMax - 1);
  }
  await all(
    storm,
    seed,
    dead.flatMap((order) => [() => retryDeadLetter(storm, order), () => retryDeadLetter(storm, order)]),
  );
  storm.calm();
  // A new caller gets the same answer as all callers before.
  await all(
    storm,
    seed,
    orders.flatMap((order) => [() => deliver(storm, order), () => request(storm, order)]),
  );

  for (const order of orders) {
    const { answers, began, firstAnswerAt, killed, died } = storm.of(order);
    const calls = effects.calls(effectKeyOf(scope, order.id));
    const attempts = calls.map(({ attempt }) => attempt);
    const about = `seed ${seed}: ${JSON.stringify(order)}, called by the attempts ${attempts}`;
    expect([...answers], `${about}, must have one answer`).toHaveLength(1);
    expect(effects.applied(effectKeyOf(scope, order.id)), about).toBe(1);
    expect(new Set(attempts).size, about).toBe(attempts.length);
    expect(
      began.filter((at) => at > firstAnswerAt),
      `${about}, and an attempt began after a caller got the outcome`,
    ).toEqual([]);
    // Handled with others it may kill two processes in a row, then only alone. A death does not count if the process stood still for
    // longer than the message was alone; after three such deaths it is alone for longer than any process stands still.
    expect(killed, about).toBeLessThanOrEqual(suspectDeaths + attemptsMax + 3);
    if (order.poison) expect(died, about).toBe(true);
    storm.totals.calls += calls.length;
  }
  expect(effects.keys().length).toBe(orders.length);
  return storm.totals;
}

describe("a simulated inbox and route", () => {
  const seeds = effort({ quick: 100, full: 400 });

  test(`keep their promises in ${seeds} seeds`, { timeout: 300_000 }, async () => {
    const total = await simulateSeeds(seeds, simulateSeed);
    // A simulation without faults would prove nothing.
    expect(total.crashes).toBeGreaterThan(seeds / 2);
    expect(total.dead).toBeGreaterThan(seeds / 8);
    expect(total.retried).toBeGreaterThan(seeds / 15);
    expect(total.held).toBeGreaterThan(seeds / 20);
    expect(total.answers).toBeGreaterThan(total.calls);
  });
});
