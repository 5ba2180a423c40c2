import { describe, expect, test } from "vitest";
import { createStore } from "../../src/core/store/create-store.js";
import type { Store } from "../../src/core/store/store.js";
import { suspectDeaths } from "../../src/core/work/in-hand.js";
import { createOutbox, type Outbox, type OutboxMessage, type OutboxRelay, type PublishContext } from "../../src/exports/outbox.js";
import { Random } from "../../src/exports/testing.js";
import { createMemoryLedger, memoryBackend } from "../../src/stores/memory/backend.js";
import { type Weather, withFaults } from "../../src/testing/simulator/faults.js";
import { never, SimulatedProcess, World } from "../../src/testing/simulator/world.js";
import { effort } from "../kit/effort.js";
import { simulateSeeds } from "../kit/seeds.js";
import { muteWarnings } from "../kit/warnings.js";

muteWarnings("ONCEFLOW_NOT_SAVED");

/**
 * Processes that add and relay, crash, stall, stop and lose requests and replies; a broker that is down now and then; messages
 * that fail, and some that kill their process. In every case: each added message is delivered at least once, unchanged; the
 * first deliveries of a key are in the order of its adds; a repeated delivery is marked as one.
 */
interface Event {
  readonly id: string;
  readonly key: string;
  readonly seq: number;
  readonly harm: "none" | "fails" | "poison" | "kills";
  failuresLeft: number;
  /** How often it was added: again after a lost reply. */
  adds: number;
  /** How many publish calls began with it before it became a dead letter. */
  begun: number;
  dead: boolean;
}

interface Came {
  readonly attempt: number;
  readonly redelivered: boolean;
}

interface Host {
  readonly process: SimulatedProcess;
  readonly store: Store;
  readonly outbox: Outbox;
  relay: OutboxRelay;
}

interface Totals {
  crashes: number;
  stops: number;
  came: number;
  again: number;
  dead: number;
  readds: number;
}

const triesMax = 3;
/** Before each failed try a message may have been in progress when processes died, beside other messages and alone. */
const begunMax = triesMax * (suspectDeaths + triesMax + 1);

class OutboxSimulation {
  readonly random: Random;
  readonly world: World;
  readonly ledger: ReturnType<typeof createMemoryLedger>;
  readonly events: Event[];
  readonly came = new Map<string, Came[]>();
  /** For each key, the ids in the order of their first delivery. */
  readonly first = new Map<string, string[]>();
  readonly totals: Totals = { crashes: 0, stops: 0, came: 0, again: 0, dead: 0, readds: 0 };
  readonly leaseMs: number;
  readonly #hosts: Host[] = [];
  readonly #retentionMs: number;
  #weather: Weather;
  #downUntil = 0;
  #open = 0;
  broken: unknown;

  constructor(seed: number) {
    this.random = new Random(seed);
    this.world = new World(this.random);
    this.ledger = createMemoryLedger(() => Math.floor(this.world.now()));
    this.leaseMs = this.random.pick([100, 300]);
    this.#retentionMs = this.random.pick([0, 0, 1_000_000]);
    const bad = () => (this.random.chance(0.5) ? this.random.next() * 0.08 : 0);
    this.#weather = {
      ...{ crashBefore: bad(), crashAfter: bad(), loseRequest: bad(), loseReply: bad(), unreachable: bad(), pause: bad() },
      ...{ pauseMsMax: this.leaseMs * 4, latencyMsMax: this.random.pick([0, 3, 30]) },
    };
    const keys = ["a", "b", "c"].slice(0, this.random.between(1, 3));
    this.events = keys.flatMap((key) =>
      Array.from({ length: this.random.between(1, 5) }, (_, seq) => {
        const harm = this.random.pick(["none", "none", "none", "fails", "poison", "kills"] as const);
        return { id: `${key}-${seq}`, key, seq, harm, failuresLeft: this.random.between(1, 2), adds: 0, begun: 0, dead: false };
      }),
    );
  }

  host(slot: number = this.random.between(0, 2)): Host {
    const current = this.#hosts[slot];
    if (current && !current.process.dead) return current;
    if (current) this.totals.crashes += 1;
    const process = new SimulatedProcess(this.world, slot);
    const backend = withFaults(memoryBackend(this.ledger), this.world, process, this.#weather);
    const store = createStore(backend, { clock: process.clock, purgeEveryMs: 0 });
    const outbox = createOutbox(store, {
      ...{ name: "o", attemptsMax: triesMax, backoffMs: 10, backoffMsMax: 100, retentionMs: this.#retentionMs },
    });
    const host: Host = { process, store, outbox, relay: this.relay(process, outbox) };
    this.#hosts[slot] = host;
    return host;
  }

  relay(process: SimulatedProcess, outbox: Outbox): OutboxRelay {
    const work = () => new Promise<void>((go) => void process.clock.after(this.random.between(0, this.leaseMs), go));
    const publisher = async (message: OutboxMessage, { attempt }: PublishContext): Promise<void> => {
      const event = this.eventOf(message);
      event.begun += 1;
      if (!event.dead) expect(event.begun, `${message.id}: published too often`).toBeLessThanOrEqual(begunMax * Math.max(1, event.adds));
      await work();
      if (process.dead) return await never();
      if (this.world.now() < this.#downUntil) throw new Error("the broker is down");
      if (!event.dead && event.harm === "poison") throw new Error("poison");
      if (!event.dead && event.harm === "kills" && this.random.chance(0.7)) {
        process.dead = true;
        return await never();
      }
      if (event.harm === "fails" && event.failuresLeft-- > 0) throw new Error("failed");
      this.take(message, attempt);
      await work();
      // The message was published, and the broker's reply was lost.
      if (this.random.chance(0.05)) throw new Error("no reply");
    };
    const options = {
      leaseMs: this.leaseMs,
      pollMs: this.leaseMs / 2,
      concurrency: this.random.between(1, 4),
      timeoutMs: this.leaseMs * 20,
    };
    return outbox.relay((message, context) => publisher(message, context).catch((error) => this.#fault(error)), options);
  }

  /** Keeps a failed expectation: it is not an error of the broker. */
  #fault(error: unknown): never {
    if ((error as Error).name === "AssertionError") this.broken ??= error;
    throw error;
  }

  eventOf({ id, key, payload }: OutboxMessage): Event {
    const event = this.events.find((each) => each.id === id);
    expect(event, `${id} was never added`).toBeDefined();
    expect([key, payload]).toEqual([event?.key, { seq: event?.seq }]);
    return event as Event;
  }

  take(message: OutboxMessage, attempt: number): void {
    const { id, key = "", redelivered } = message;
    const came = this.came.get(id) ?? [];
    this.came.set(id, came);
    if (came.length === 0) this.first.set(key, [...(this.first.get(key) ?? []), id]);
    else this.totals.again += 1;
    came.push({ attempt, redelivered });
    this.totals.came += 1;
  }

  /** Adds each message of a key, in any live process, until the store confirms it. Only then the next one is added. */
  async produce(key: string): Promise<void> {
    for (const event of this.events.filter((each) => each.key === key)) {
      for (;;) {
        const { process, outbox } = this.host();
        event.adds += 1;
        if (event.adds > 1) this.totals.readds += 1;
        const adding = outbox.add(undefined, { id: event.id, key, payload: { seq: event.seq } });
        if ((await this.answerOf(process, adding)) === event.id) break;
        await this.world.wait(this.random.between(0, this.leaseMs));
      }
      await this.world.wait(this.random.between(0, this.leaseMs));
    }
  }

  /** Resolves with the answer, or with undefined if the process dies first. */
  async answerOf<Answer>(process: SimulatedProcess, answer: Promise<Answer>): Promise<Answer | undefined> {
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

  /** The operator: restarts crashed processes, stops a relay now and then, and redrives dead letters. */
  operate(): void {
    for (const slot of [0, 1, 2]) {
      const host = this.host(slot);
      if (this.random.chance(0.05)) {
        this.totals.stops += 1;
        const stopping = host.relay.stop({ graceMs: this.random.pick([0, this.leaseMs * 2]) });
        void this.answerOf(host.process, stopping).catch((error) => {
          this.broken ??= error;
        });
        host.relay = this.relay(host.process, host.outbox);
      }
    }
    if (this.random.chance(0.1)) this.#downUntil = this.world.now() + this.random.between(0, this.leaseMs * 2);
    void this.redrive(this.host());
    this.world.after(this.leaseMs, () => this.operate());
  }

  async redrive({ process, outbox }: Host): Promise<void> {
    const letters = await this.answerOf(process, outbox.deadLetters());
    for (const { id, attempts } of letters ?? []) {
      expect(attempts).toBeGreaterThanOrEqual(1);
      const event = this.events.find((each) => each.id === id) as Event;
      if (!event.dead) this.totals.dead += 1;
      event.dead = true;
      await this.answerOf(process, outbox.retry(id));
    }
  }

  async run(stepsMax: number): Promise<boolean> {
    const keys = [...new Set(this.events.map(({ key }) => key))];
    this.#open = keys.length;
    for (const key of keys)
      this.produce(key).then(
        () => void this.#open--,
        (error: unknown) => {
          this.broken ??= error;
        },
      );
    this.operate();
    return await this.world.run(
      () => this.broken !== undefined || (this.#open === 0 && this.ledger.packets.table.packets.size === 0),
      stepsMax,
    );
  }
}

/** Ignores errors after which the caller tries again: the store was unreachable or its answer was lost. Other errors are faults. */
function storeFailed(error: unknown): undefined {
  const { code } = error as { readonly code?: string };
  if (code !== "STORE_UNREACHABLE" && code !== "NOT_KNOWN") throw error;
}

async function simulateSeed(seed: number): Promise<Totals> {
  const simulation = new OutboxSimulation(seed);
  const ended = await simulation.run(100_000);
  if (simulation.broken !== undefined) throw new Error(`seed ${seed}: ${String(simulation.broken)}`, { cause: simulation.broken });
  expect(ended, `seed ${seed}: a message is still in the outbox`).toBe(true);
  for (const { id, key, seq, adds } of simulation.events) {
    const came = simulation.came.get(id) ?? [];
    const about = `seed ${seed}: ${id}, added ${adds} times, delivered as ${JSON.stringify(came)}`;
    expect(came.length, about).toBeGreaterThanOrEqual(1);
    expect(simulation.first.get(key)?.[seq], `${about}; its key was delivered as ${simulation.first.get(key)}`).toBe(id);
    // Each add has at most one delivery that is not marked as redelivered.
    expect(came.filter(({ redelivered }) => !redelivered).length, about).toBeLessThanOrEqual(adds);
    for (const { attempt, redelivered } of came) expect(redelivered, about).toBe(attempt > 1);
  }
  return simulation.totals;
}

describe("an outbox, simulated", () => {
  const seeds = effort({ quick: 50, full: 150 });

  test(`keeps its promises in ${seeds} seeds`, { timeout: 300_000 }, async () => {
    const total = await simulateSeeds(seeds, simulateSeed);
    // A simulation without failures proves nothing.
    expect(total.crashes).toBeGreaterThan(seeds);
    expect(total.stops).toBeGreaterThan(seeds / 2);
    expect(total.again).toBeGreaterThan(seeds / 2);
    expect(total.dead).toBeGreaterThan(seeds / 2);
    expect(total.readds).toBeGreaterThan(seeds / 10);
  });
});
