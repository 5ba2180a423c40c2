import { describe, expect, test } from "vitest";
import { NotKnownError } from "../../src/core/errors/errors.js";
import type { PacketClaimQuery } from "../../src/core/packets/operation.js";
import { createStore } from "../../src/core/store/create-store.js";
import type { Store } from "../../src/core/store/store.js";
import { InHand } from "../../src/core/work/in-hand.js";
import { createOutbox, type Outbox, type OutboxOptions, type Publisher, type RelayOptions } from "../../src/exports/outbox.js";
import { Random } from "../../src/exports/testing.js";
import { createMemoryLedger, memoryBackend } from "../../src/stores/memory/backend.js";
import { type Weather, withFaults } from "../../src/testing/simulator/faults.js";
import { SimulatedProcess, World } from "../../src/testing/simulator/world.js";

const still: Weather = {
  crashBefore: 0,
  crashAfter: 0,
  loseRequest: 0,
  loseReply: 0,
  unreachable: 0,
  pause: 0,
  pauseMsMax: 1,
  latencyMsMax: 0,
};

/** Tests of an outbox's delays and leases on virtual time, which the test controls. */
class Scene {
  readonly world = new World(new Random(1));
  readonly #ledger = createMemoryLedger(() => Math.floor(this.world.now()));
  #processes = 0;

  process(
    options: Partial<OutboxOptions> = {},
    weather: Weather = still,
  ): { readonly process: SimulatedProcess; readonly store: Store; readonly outbox: Outbox } {
    const process = new SimulatedProcess(this.world, this.#processes++);
    // A paused process gets no answers from the store.
    const backend = withFaults(memoryBackend(this.#ledger), this.world, process, weather);
    const store = createStore(backend, { clock: process.clock, purgeEveryMs: 0 });
    return { process, store, outbox: createOutbox(store, { name: "o", ...options }) };
  }

  /** Runs the world until the condition holds. Fails if nothing is left that could make it true. */
  async until(holds: () => boolean): Promise<void> {
    expect(await this.world.run(holds, this.world.steps + 20_000), "the condition never became true").toBe(true);
  }

  /** The number of messages that the store has assigned to relays. */
  owned(): number {
    return [...this.#ledger.packets.table.packets.values()].filter(({ owner }) => owner !== null).length;
  }

  async add(outbox: Outbox, ...payloads: unknown[]): Promise<void> {
    let added = 0;
    for (const payload of payloads) void outbox.add(undefined, { key: "k", payload }).then(() => added++);
    await this.until(() => added === payloads.length);
  }

  /** Adds a message that was in progress when two relays in a row died. */
  async addSuspect(outbox: Outbox): Promise<void> {
    await this.add(outbox, "suspect");
    for (let deaths = 0; deaths < 2; deaths++) {
      const { process, outbox: own } = this.process();
      const dies = () => {
        process.dead = true;
        return new Promise(() => {});
      };
      own.relay(dies, { leaseMs: 1000, pollMs: 100 });
      await this.until(() => process.dead);
    }
  }

  /** The time of each publish call. */
  timesOf(outbox: Outbox, publish: Publisher, options: RelayOptions = {}): number[] {
    const times: number[] = [];
    outbox.relay((message, context) => {
      times.push(this.world.now());
      return publish(message, context);
    }, options);
    return times;
  }
}

const gaps = (times: readonly number[]) => times.slice(1).map((time, i) => time - (times[i] ?? 0));
const fails = () => {
  throw new Error("no");
};

describe("delays and leases of an outbox", () => {
  test("the delay doubles after every failure, up to backoffMsMax", async () => {
    const scene = new Scene();
    const { outbox } = scene.process({ backoffMs: 1000, backoffMsMax: 10_000, attemptsMax: 7 });
    await scene.add(outbox, "m");
    const times = scene.timesOf(outbox, fails);
    await scene.until(() => outbox.metrics.dead === 1);
    expect(gaps(times)).toEqual([1000, 2000, 4000, 8000, 10_000, 10_000]);
  });

  test("backoffMs may be a function; if it throws or returns an invalid delay, the delay is backoffMsMax", async () => {
    const scene = new Scene();
    const delays = [5, -1, Number.NaN, 1e9, 0];
    const backoffMs = (attempt: number) => {
      if (attempt > delays.length) throw new Error("no delay");
      return delays[attempt - 1] as number;
    };
    const { outbox } = scene.process({ backoffMs, backoffMsMax: 50, attemptsMax: 7 });
    await scene.add(outbox, "m");
    const times = scene.timesOf(outbox, fails);
    await scene.until(() => outbox.metrics.dead === 1);
    expect(gaps(times)).toEqual([5, 50, 50, 50, 0, 50]);
  });

  test("a publisher may take longer than many leases, as long as its process is alive", async () => {
    const scene = new Scene();
    const [one, other] = [scene.process(), scene.process()];
    await scene.add(one.outbox, "slow");
    const options = { leaseMs: 1000, pollMs: 100, timeoutMs: 60_000 };
    const slow = () => new Promise<void>((go) => void one.process.clock.after(20_000, go));
    const times = scene.timesOf(one.outbox, slow, options);
    await scene.until(() => times.length === 1);
    const elsewhere = scene.timesOf(other.outbox, slow, options);
    await scene.until(() => one.outbox.metrics.published === 1);
    expect([times.length, elsewhere.length]).toEqual([1, 0]);
    expect(one.outbox.metrics).toMatchObject({ leasesLost: 0, stale: 0 });
  });

  test("a relay that is silent for longer than its lease gets an abort signal; another relay publishes its message again, marked as redelivered", async () => {
    const scene = new Scene();
    const [one, other] = [scene.process(), scene.process()];
    await scene.add(one.outbox, "m", "next");
    const options = { leaseMs: 1000, pollMs: 100 };
    const seen: string[] = [];
    let abortSignal: AbortSignal | undefined;
    one.outbox.relay(async ({ payload, redelivered }, { attempt, signal }) => {
      if (payload !== "m") return;
      abortSignal = signal;
      one.process.pausedUntil = scene.world.now() + 5000;
      await new Promise<void>((go) => void one.process.clock.after(100, go));
      seen.push(`one: ${payload} ${attempt} ${redelivered}`);
      await new Promise<void>((go) => void one.process.clock.after(1000, go));
    }, options);
    await scene.until(() => abortSignal !== undefined);
    other.outbox.relay(({ payload, redelivered }, { attempt }) => void seen.push(`other: ${payload} ${attempt} ${redelivered}`), options);
    await scene.until(() => one.outbox.metrics.stale === 1);
    expect(seen).toEqual(["other: m 2 true", "other: next 1 false", "one: m 1 false"]);
    expect(abortSignal?.aborted).toBe(true);
    expect(one.outbox.metrics).toMatchObject({ published: 0, stale: 1, leasesLost: 1 });
    expect(other.outbox.metrics).toMatchObject({ published: 2 });
    // The first relay has registered again, and continues.
    await scene.add(other.outbox, "later");
    await scene.until(() => one.outbox.metrics.published + other.outbox.metrics.published === 3);
  });

  test("a message whose claim lost its reply is published by the same process, and the message in progress is published once", async () => {
    const scene = new Scene();
    const weather = { ...still };
    const adding = scene.process();
    const { process, outbox } = scene.process({}, weather);
    await scene.add(adding.outbox, "slow");
    const seen: string[] = [];
    let lost = 0;
    const onTrouble = () => {
      if (scene.owned() === 2) lost += 1;
    };
    const options = { leaseMs: 1000, pollMs: 100, onTrouble };
    outbox.relay(async ({ key, payload }, { attempt }) => {
      if (payload === "slow") await new Promise<void>((go) => void process.clock.after(5000, go));
      seen.push(`${key} ${payload} ${attempt}`);
    }, options);
    await scene.until(() => outbox.metrics.inFlight === 1);
    weather.loseReply = 1;
    void adding.outbox.add(undefined, { key: "other", payload: "claimed" });
    await scene.until(() => lost > 0);
    weather.loseReply = 0;
    await scene.until(() => outbox.metrics.published === 2);
    // Handing the message back did not count as a publish call, but the attempt number of that claim is used up.
    expect(seen).toEqual(["k slow 1", "other claimed 2"]);
    expect(outbox.metrics).toMatchObject({ leasesLost: 0, stale: 0 });
  });

  test("a relay that stops hands back messages of a claim whose reply was lost", async () => {
    const scene = new Scene();
    const adding = scene.process();
    await scene.add(adding.outbox, "m");
    const { outbox, store } = scene.process();
    // The reply to its first claim is lost.
    const { packets } = store;
    const claim = (query: PacketClaimQuery) => packets.claim(query).then(() => Promise.reject(new NotKnownError("lost")));
    const deaf = Object.create(store, { packets: { value: { ...packets, claim } } }) as Store;
    let stopped = false;
    const options = { leaseMs: 3_600_000, pollMs: 100 };
    const relay = createOutbox(deaf, { name: outbox.name }).relay(() => {}, {
      ...options,
      onTrouble: () => void relay.stop().then(() => (stopped = true)),
    });
    await scene.until(() => scene.owned() === 1);
    await scene.until(() => stopped);
    expect(scene.owned()).toBe(0);
    const times = scene.timesOf(adding.outbox, () => {}, options);
    await scene.until(() => times.length === 1);
  });

  test("a failed poll is repeated until the store is reachable", async () => {
    const scene = new Scene();
    const weather = { ...still, unreachable: 1 };
    const adding = scene.process();
    const { outbox } = scene.process({}, weather);
    await scene.add(adding.outbox, "m");
    let troubles = 0;
    outbox.relay(() => {}, { pollMs: 1000, onTrouble: () => void troubles++ });
    await scene.until(() => troubles === 5);
    weather.unreachable = 0;
    await scene.until(() => outbox.metrics.published === 1);
  });

  test("a message of another process is published long before the next poll", async () => {
    const scene = new Scene();
    const { outbox } = scene.process();
    const polling = scene.process();
    const times = scene.timesOf(polling.outbox, () => {}, { pollMs: 5000 });
    const idleUntil = scene.world.now() + 17_500;
    await scene.until(() => scene.world.now() >= idleUntil);
    const before = scene.world.now();
    await scene.add(outbox, "m");
    await scene.until(() => times.length === 1);
    // In milliseconds of the virtual clock.
    expect((times[0] as number) - before).toBeLessThan(100);
    expect(outbox.metrics).toMatchObject({ added: 1, published: 0 });
  });

  test("a message that kills its process becomes a dead letter after it has killed attemptsMax processes while it was handled alone", async () => {
    const scene = new Scene();
    let calls = 0;
    const { outbox } = scene.process();
    await scene.add(outbox, "deadly", "next");
    const later: string[] = [];
    for (let i = 0; i < 6; i++) {
      const { process, outbox: own } = scene.process({ attemptsMax: 3 });
      own.relay(
        ({ payload }) => {
          if (payload !== "deadly") return void later.push(String(payload));
          calls += 1;
          process.dead = true;
          return new Promise(() => {});
        },
        { leaseMs: 1000, pollMs: 100 },
      );
      await scene.until(() => process.dead || own.metrics.dead === 1);
    }
    // Two deaths while other messages were in progress, three alone.
    expect(calls).toBe(5);
    let letters: Awaited<ReturnType<Outbox["deadLetters"]>> = [];
    void outbox.deadLetters().then((found) => {
      letters = found;
    });
    await scene.until(() => letters.length === 1);
    expect(letters[0]).toMatchObject({ attempts: 6, message: { payload: "deadly" } });
    expect(letters[0]?.history).toMatchObject([
      { attempt: 5, code: "ALONE" },
      { attempt: 6, code: "ATTEMPTS_EXHAUSTED" },
    ]);
    expect(later).toEqual([]);
  });

  test("messages beside one that kills its process are published, and none of them becomes a dead letter", async () => {
    const scene = new Scene();
    const { outbox } = scene.process();
    const healthy = ["a", "b", "c", "d", "e"];
    let added = 0;
    for (const payload of ["a", "b", "deadly", "c", "d", "e"]) void outbox.add(undefined, { payload }).then(() => added++);
    await scene.until(() => added === 6);
    const published: unknown[] = [];
    let deaths = 0;
    for (let isOver = false; !isOver; ) {
      const { process, outbox: own } = scene.process({ attemptsMax: 1 });
      own.relay(
        async ({ payload }) => {
          await new Promise<void>((go) => void process.clock.after(payload === "deadly" ? 0 : 10, go));
          if (process.dead || payload === "deadly") {
            process.dead = true;
            await new Promise(() => {});
          }
          published.push(payload);
        },
        { leaseMs: 1000, pollMs: 100 },
      );
      await scene.until(() => process.dead || own.metrics.dead === 1);
      isOver = !process.dead;
      if (process.dead) deaths += 1;
    }
    let letters: Awaited<ReturnType<Outbox["deadLetters"]>> | undefined;
    void outbox.deadLetters().then((found) => {
      letters = found;
    });
    await scene.until(() => letters !== undefined && published.length === healthy.length);
    expect(published.toSorted()).toEqual(healthy);
    expect(letters?.map(({ message }) => message?.payload)).toEqual(["deadly"]);
    expect(deaths).toBe(3);
  });

  test("a relay that has no free slot when it hands a suspect back polls for it again", async () => {
    const scene = new Scene();
    const { outbox } = scene.process();
    await scene.addSuspect(outbox);
    const { store, process, outbox: own } = scene.process();
    // Other work of this process, which takes longer than a lease.
    const inHand = InHand.of(store);
    void inHand.beside(() => new Promise<void>((go) => void process.clock.after(3000, go)));
    own.relay(() => {}, { leaseMs: 1000, pollMs: 100, concurrency: 1 });
    await scene.until(() => own.metrics.published === 1);
  });

  test("a message that waited for a suspect and was claimed by another relay meanwhile is not published here", async () => {
    const scene = new Scene();
    const [one, other] = [scene.process(), scene.process()];
    await scene.add(one.outbox, "m");
    const options = { leaseMs: 1000, pollMs: 100 };
    const seen: string[] = [];
    const { packets } = one.store;
    let [end, isAlone] = [() => {}, false];
    // A suspect starts to be handled alone while the claim is in progress.
    const claim = async (query: PacketClaimQuery) => {
      const claims = await packets.claim(query);
      if (claims.claimed.length > 0 && !isAlone) {
        isAlone = true;
        void inHand.alone({ clock: one.process.clock, patienceMs: 1000 }, () => new Promise<object>((go) => (end = () => go({}))));
      }
      return claims;
    };
    const slow = Object.create(one.store, { packets: { value: { ...packets, claim } } }) as Store;
    const inHand = InHand.of(slow);
    createOutbox(slow, { name: one.outbox.name }).relay(() => void seen.push("one"), options);
    await scene.until(() => isAlone);
    one.process.pausedUntil = scene.world.now() + 5000;
    other.outbox.relay(() => void seen.push("other"), options);
    await scene.until(() => seen.length === 1);
    const later = scene.world.now() + 10_000;
    await scene.until(() => scene.world.now() >= later);
    end();
    const last = scene.world.now() + 10_000;
    await scene.until(() => scene.world.now() >= last);
    expect(seen).toEqual(["other"]);
  });
});
