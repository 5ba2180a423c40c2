import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type OpenOptions, open, type Store } from "onceflow";
import { memoryTarget } from "onceflow/testing";
import { type Worker, type WorkerOptions, work } from "onceflow/workflow";
import { afterAll, beforeAll, describe, inject, test } from "vitest";
import { type Mortal, mortal } from "../../src/testing/mortal-store.js";
import { freshMongoDatabase } from "../servers/mongodb/databases.js";
import { type FreshDatabase, freshDatabase } from "../servers/postgres/databases.js";
import { SchemaPool } from "../servers/postgres/schema-pool.js";

export type StoreName = "memory" | "sqlite" | "postgres" | "mongodb";
export const everyStore: readonly StoreName[] = ["memory", "sqlite", "postgres"];
/** Stores as the titles of all tests spell them, so that `-t SQLite` selects every test on SQLite. */
const storeTitles: Readonly<Record<StoreName, string>> = {
  memory: "memory",
  sqlite: "SQLite",
  postgres: "PostgreSQL",
  mongodb: "MongoDB (emulator)",
};
/** Stores with runs and packets. */
export const fullStores: readonly StoreName[] = [...everyStore, "mongodb"];
/** Stores that outlive a process. */
export const durableStores: readonly StoreName[] = ["sqlite", "postgres"];

/** One database that no other test uses. */
interface Place {
  /** Empty for memory, which no other process can open. */
  readonly url: string;
  open(options?: OpenOptions): Promise<Store>;
  /** `spoilt`: the test has changed more than rows, or processes that it has killed may still write. */
  remove(spoilt: boolean): Promise<void>;
}

interface Workplace {
  readonly store: Store;
  readonly worker: Worker;
}

/** A short lease that is still longer than a round trip on a busy machine: a worker that is not sure of its lease begins nothing. */
export const shortMs = 250;

let named = 0;

/** What a test works on: a database that no other test uses, any number of stores and workers on it, all closed at the end. */
export class Scene {
  readonly on: StoreName;
  readonly #place: Place;
  readonly #stores: Store[] = [];
  readonly #workers: Worker[] = [];
  readonly #ends: (() => unknown)[] = [];
  /** Set by a test that changes the tables: no other test gets them. */
  isSpoilt = false;

  constructor(on: StoreName, place: Place) {
    this.on = on;
    this.#place = place;
  }

  get url(): string {
    return this.#place.url;
  }

  /** A name that no other test has: definitions belong to the process. */
  name(name: string): string {
    named += 1;
    return `${name} ${named}`;
  }

  /**
   * Another handle, as another process would have it. Without the heartbeat thread, which takes longer to start
   * than most tests take, and would go on renewing for a process that is not really dead.
   */
  async open(options: OpenOptions = {}): Promise<Store> {
    const store = await this.#place.open({ purgeEveryMs: 0, stallMsMax: 0, ...options });
    this.#stores.push(store);
    return store;
  }

  /** A worker on a new handle, as in another process; or on the given one. */
  async work(options: WorkerOptions = {}, given?: Store): Promise<Workplace> {
    const store = given ?? (await this.open());
    const worker = await work(store, options);
    this.#workers.push(worker);
    return { store, worker };
  }

  /** A worker whose process will die; the test need not stop it. */
  async workAndDie(options: WorkerOptions = {}, opening: OpenOptions = {}): Promise<Mortal> {
    const doomed = mortal(await this.open(opening));
    await work(doomed.store, { leaseMs: shortMs, background: true, ...options });
    return doomed;
  }

  /** Called at the end, before workers are stopped. */
  onEnd(end: () => unknown): void {
    this.#ends.push(end);
  }

  async end(): Promise<void> {
    for (const end of this.#ends.reverse()) await end();
    await bounded(
      "stop",
      this.#workers.map((worker) => worker.stop({ graceMs: 0 })),
    );
    await bounded(
      "close",
      this.#stores.map((store) => store.close()),
    );
    await this.#place.remove(this.isSpoilt);
  }
}

const endMsMax = 30_000;

/** A test that leaves something running fails, instead of keeping its file from ending. */
async function bounded(what: string, ends: readonly Promise<void>[]): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const tooLong = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`a worker or store of this test did not ${what} within ${endMsMax} ms`)), endMsMax);
  });
  await Promise.race([Promise.all(ends), tooLong]).finally(() => clearTimeout(timer));
}

const memory = memoryTarget({ time: "real" });

async function memoryPlace(): Promise<Place> {
  return { url: "", ...(await memory.create()) };
}

async function sqlitePlace(): Promise<Place> {
  const folder = await mkdtemp(join(tmpdir(), "onceflow-workflow-"));
  const url = `sqlite:${join(folder, "onceflow.db")}`;
  return { url, open: (options) => open(url, options), remove: () => rm(folder, { recursive: true, force: true }) };
}

/** A schema: a database for each test would take longer than most tests. */
async function postgresPlace(pool: SchemaPool): Promise<Place> {
  const schema = pool.take();
  const { href } = schema.url;
  return { url: href, open: (options) => open(href, options), remove: (spoilt) => (spoilt ? Promise.resolve() : schema.giveBack()) };
}

let prefixes = 0;

/** A prefix of its own in a database that all tests of a file share. */
async function mongoPlace(database: FreshDatabase): Promise<Place> {
  prefixes += 1;
  const url = new URL(database.url);
  url.searchParams.set("prefix", `case_${prefixes}`);
  return { url: url.href, open: (options) => open(url.href, options), remove: async () => {} };
}

type SceneTest = ReturnType<typeof sceneTest>;

function sceneTest(on: StoreName, place: () => Promise<Place>, startsProcesses: boolean) {
  return test.extend<{ scene: Scene }>({
    // biome-ignore lint/correctness/noEmptyPattern: vitest reads a fixture's needs from its first argument
    scene: async ({}, use) => {
      const scene = new Scene(on, await place());
      // A killed process may have a write under way that reaches the server after the test.
      scene.isSpoilt = startsProcesses;
      try {
        await use(scene);
      } finally {
        await scene.end();
      }
    },
  });
}

type Tests = (test: SceneTest, on: StoreName) => void;

/** The same tests on each of these stores, concurrently. */
export function onStores(title: string, stores: readonly StoreName[], tests: Tests): void {
  forStores(stores, tests, false, (suite, on, all) => suite.concurrent(`${title}, ${storeTitles[on]}`, all));
}

/** The same tests, one after the other: each starts processes, or counts what the whole process does. */
export function onStoresInTurn(title: string, stores: readonly StoreName[], tests: Tests): void {
  forStores(stores, tests, true, (suite, on, all) => suite(`${title}, ${storeTitles[on]}`, all));
}

type Suite = ReturnType<typeof describe.skipIf>;

function forStores(
  stores: readonly StoreName[],
  tests: Tests,
  startsProcesses: boolean,
  make: (suite: Suite, on: StoreName, all: () => void) => void,
): void {
  const servers = { postgres: inject("postgres"), mongodb: inject("mongodb") };
  for (const on of stores) {
    const server = on === "postgres" || on === "mongodb" ? servers[on] : undefined;
    make(describe.skipIf(server?.ok === false), on, () => {
      let database: FreshDatabase | undefined;
      let schemas: SchemaPool | undefined;
      if (server?.ok) {
        beforeAll(async () => {
          database = await (on === "mongodb" ? freshMongoDatabase : freshDatabase)(server.url);
          if (on === "postgres") schemas = new SchemaPool(database);
        });
        afterAll(() => (schemas ?? database)?.drop());
      }
      const place = {
        memory: memoryPlace,
        sqlite: sqlitePlace,
        postgres: () => postgresPlace(schemas as SchemaPool),
        mongodb: () => mongoPlace(database as FreshDatabase),
      }[on];
      tests(sceneTest(on, place, startsProcesses), on);
    });
  }
}
