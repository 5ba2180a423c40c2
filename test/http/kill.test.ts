import { join } from "node:path";
import { list, open } from "onceflow";
import { idempotentFetch } from "onceflow/http";
import { serveEffects } from "onceflow/testing";
import { describe, expect, inject, onTestFinished, test } from "vitest";
import { callsIn } from "../kit/effects.js";
import { takeTurns } from "../kit/heavy.js";
import { Program } from "../kit/program.js";
import { temporaryFolder } from "../kit/temporary-folder.js";
import { until } from "../kit/until.js";
import { freshDatabase } from "../servers/postgres/databases.js";
import { freePort } from "../servers/process/free-port.js";

takeTurns();

/** Minimum number: the clients continue until all kills are done. */
const ordersMin = 24;
const copies = 4;
const kills = 6;
/** A process is killed after this many new calls have reached the provider, so in the middle of the next one. */
const callsPerKill = 3;

/** A server process on a port; another process takes over the port when it is killed. */
class Shop {
  readonly url: string;
  readonly #args: readonly string[];
  #program: Program;
  kills = 0;

  constructor(storeUrl: string, providerUrl: string, port: number) {
    this.url = `http://127.0.0.1:${port}/orders`;
    this.#args = [storeUrl, providerUrl, String(port)];
    this.#program = this.#start();
  }

  #start(): Program {
    return new Program("http/programs/server", this.#args, { onEnd: onTestFinished });
  }

  async ready(): Promise<void> {
    await this.#program.next();
  }

  /** Throws with the reason if the process has ended by itself. */
  async kill(): Promise<void> {
    const { code, stderr } = await this.#program.kill();
    if (code !== null) throw new Error(`the process on ${this.url} ended by itself, with ${code}: ${stderr}`);
    this.kills += 1;
  }

  async replace(): Promise<void> {
    await this.kill();
    this.#program = this.#start();
    await this.ready();
  }
}

async function killed(storeUrl: string): Promise<void> {
  const provider = await serveEffects({ honoursKeys: true, latencyMs: () => 5 + Math.random() * 40 });
  onTestFinished(() => provider.close());
  const shops = [new Shop(storeUrl, provider.url, await freePort()), new Shop(storeUrl, provider.url, await freePort())];
  onTestFinished(async () => void (await Promise.all(shops.map((shop) => shop.kill()))));
  await Promise.all(shops.map((shop) => shop.ready()));

  const answers = new Map<string, Set<string>>();
  const ask = async (order: string, at: number) => {
    const url = shops[at % shops.length]?.url ?? "";
    const init = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ order }) };
    const response = await idempotentFetch(url, init, { key: order, triesMax: 500, backoffMs: 20, waitMsMax: 1000, tryMs: 5000 });
    expect(response.status).toBe(201);
    answers.set(order, (answers.get(order) ?? new Set()).add(await response.text()));
  };
  // Some orders at a time until the last kill, so that a request is always in flight when a process dies.
  let keys = 0;
  let killing = true;
  const customers = Array.from({ length: 5 }, async () => {
    while (killing || keys < ordersMin) {
      const order = `order-${keys}`;
      keys += 1;
      await Promise.all(Array.from({ length: copies }, (_, copy) => ask(order, copy)));
    }
  });
  const callsNow = () => callsIn(provider.effects);
  const killer = (async () => {
    for (let i = 0; i < kills; i++) {
      const next = callsNow() + callsPerKill;
      await until("the provider has more calls", () => callsNow() >= next || !killing, 60_000);
      await shops[i % shops.length]?.replace();
    }
    killing = false;
  })();
  await Promise.all([killer, ...customers]).finally(() => {
    killing = false;
  });

  // All responses of a key have the same bytes, and each key was applied once at the provider.
  expect([...answers.values()].map((set) => set.size)).toEqual(Array(keys).fill(1));
  const applied = provider.effects.keys().map((key) => provider.effects.applied(key));
  expect(applied).toEqual(Array(keys).fill(1));
  const store = await open(storeUrl);
  onTestFinished(() => store.close());
  const { items } = await list(store, { limit: 1000 });
  expect(items.map(({ state }) => state)).toEqual(Array(keys).fill("completed"));
  const killed = shops.reduce((sum, shop) => sum + shop.kills, 0);
  const attempts = items.reduce((sum, { attempt }) => sum + attempt, 0);
  console.log(`killed ${killed}: ${keys} keys, ${keys * copies} requests, ${attempts} attempts`);
  expect(killed).toBe(kills);
  // Some processes died during a request: each takeover is one more attempt.
  expect(attempts).toBeGreaterThan(keys);
}

describe("two processes that serve the same keys and are killed again and again give each key one response and one effect", () => {
  test("SQLite", async () => {
    const folder = temporaryFolder(onTestFinished);
    await killed(`sqlite:${join(folder, "ledger.db")}`);
  });

  const postgres = inject("postgres");
  test.skipIf(!postgres.ok)("PostgreSQL", async () => {
    const database = await freshDatabase(postgres.ok ? postgres.url : "");
    onTestFinished(() => database.drop());
    await killed(database.url);
  });
});
