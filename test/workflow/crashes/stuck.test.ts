import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { inspect, key, once, open } from "onceflow";
import { describe, expect, inject, type TestContext, test } from "vitest";
import { isFull } from "../../kit/effort.js";
import { takeTurns } from "../../kit/heavy.js";
import { Program } from "../../kit/program.js";
import { letTimePass } from "../../kit/real-time.js";
import { temporaryFolder } from "../../kit/temporary-folder.js";
import { freshTable } from "../../servers/dynamodb/tables.js";
import { freshMongoDatabase } from "../../servers/mongodb/databases.js";
import { freshDatabase } from "../../servers/postgres/databases.js";

takeTurns();

const leaseMs = 4000;

/** Concurrent: these tests do little but wait. */
const options = { concurrent: true };
type StoreUrl = (context: TestContext) => Promise<string>;

function start({ onTestFinished }: TestContext, url: string, stuckMs: number, stallMsMax: number, program = "stuck-worker"): Program {
  const args = [url, stuckMs, leaseMs, stallMsMax].map(String);
  return new Program(`workflow/programs/${program}`, args, { onEnd: onTestFinished });
}

function cases(storeUrl: StoreUrl): void {
  test("in a healthy process the heartbeat thread renews nothing, even if a short lease was held before", async (context) => {
    const store = await open(await storeUrl(context));
    context.onTestFinished(() => store.close());
    await once(store, { key: key.of("short"), leaseMs: 50 }, () => 1);
    await once(store, { key: key.of("long"), leaseMs: 10_000 }, async () => {
      await letTimePass(600, "a renewal by the heartbeat thread would come within 600 ms, and no event says that none came");
      const held = await inspect(store, { key: "long" });
      expect(Number(held?.leaseUntil) - Number(held?.startedAt)).toBe(10_000);
    });
  });

  test("a handler that blocks the event loop for three leases keeps its key", async (context) => {
    const url = await storeUrl(context);
    const store = await open(url);
    context.onTestFinished(() => store.close());
    const worker = start(context, url, leaseMs * 3, 60_000);
    expect(await worker.next()).toBe("started");
    const ended = worker.next();
    let asked = 0;
    let outcome: unknown;
    void ended.then((value) => {
      outcome = value;
    });
    while (outcome === undefined) {
      const { status } = await once(store, { key: key.of("stuck"), onRunning: "return", leaseMs }, () => "taken over");
      expect(["running", "replayed"]).toContain(status);
      asked += 1;
      await letTimePass(20, "asks again and again while the other process is stuck");
    }
    expect(outcome).toBe("executed");
    expect(asked).toBeGreaterThan(3);
    expect((await inspect(store, { key: "stuck" }))?.attempts).toHaveLength(1);
  });

  test("a process that is stuck for longer than stallMsMax loses its key and cannot settle it", async (context) => {
    const url = await storeUrl(context);
    const store = await open(url);
    context.onTestFinished(() => store.close());
    const worker = start(context, url, leaseMs * 4, leaseMs);
    expect(await worker.next()).toBe("started");
    const ended = worker.next();
    const taken = await once(store, { key: key.of("stuck"), leaseMs, waitMs: leaseMs * 6 }, () => "taken over");
    expect(taken).toMatchObject({ status: "executed", value: "taken over", attempt: 2 });
    expect(await ended).toBe("LEASE_LOST");
    expect((await inspect(store, { key: "stuck" }))?.value).toBe("taken over");
  });
}

/** Packets of a worker, under its one lease. */
function packetCases(storeUrl: StoreUrl): void {
  async function stuck(context: TestContext, stuckMs: number, stallMsMax: number) {
    const url = await storeUrl(context);
    const store = await open(url);
    context.onTestFinished(() => store.close());
    const worker = start(context, url, stuckMs, stallMsMax, "stuck-packets");
    expect(await worker.next()).toBe("started");
    const own = await store.packets.join({ leaseMs: 600_000 });
    const claim = () => store.packets.claim({ worker: own, queues: [{ flow: "flow", queue: "edge", limit: 1 }], limit: 1 });
    let outcome: unknown;
    void worker.next().then((value) => {
      outcome = value;
    });
    const claims: number[] = [];
    while (outcome === undefined) {
      claims.push((await claim()).claimed.length);
      await letTimePass(20, "asks again and again while the other process is stuck");
    }
    return { outcome, claims };
  }

  test("a worker that blocks the event loop for three leases keeps its packets", async (context) => {
    const { outcome, claims } = await stuck(context, leaseMs * 3, 60_000);
    expect(claims.length).toBeGreaterThan(3);
    expect(Math.max(...claims)).toBe(0);
    expect(outcome).toBe("packetSettled");
  });
}

/** Runs of a worker, under its one lease, and its heartbeat. */
function runCases(storeUrl: StoreUrl): void {
  test("a worker that blocks the event loop for three leases keeps its runs, and stays live", async (context) => {
    const url = await storeUrl(context);
    const store = await open(url);
    context.onTestFinished(() => store.close());
    const worker = start(context, url, leaseMs * 3, 60_000, "stuck-runs");
    expect(await worker.next()).toBe("started");
    let outcome: unknown;
    void worker.next().then((value) => {
      outcome = value;
    });
    let looks = 0;
    while (outcome === undefined) {
      const { claimed } = await store.runs.claim({ owner: "other", workflows: ["work"], leaseMs, limit: 1 });
      expect(claimed).toEqual([]);
      expect(await store.runs.workers()).toMatchObject([{ id: "stuck", workflows: ["work"], version: "1", live: true }]);
      looks += 1;
      await letTimePass(20, "asks again and again while the other process is stuck");
    }
    expect(outcome).toBe("appended");
    expect(looks).toBeGreaterThan(3);
  });
}

describe("a stuck event loop on SQLite", options, () => {
  const url = async ({ onTestFinished }: TestContext) => {
    const folder = temporaryFolder(onTestFinished);
    return `sqlite:${join(folder, "ledger.db")}`;
  };
  cases(url);
  packetCases(url);
  runCases(url);
});

const postgres = inject("postgres");
describe.skipIf(!postgres.ok || !isFull)("a stuck event loop on PostgreSQL", options, () => {
  const url = async ({ onTestFinished }: TestContext) => {
    const database = await freshDatabase(postgres.ok ? postgres.url : "");
    onTestFinished(() => database.drop());
    return database.url;
  };
  cases(url);
  runCases(url);
});

const redis = inject("redis");
describe.skipIf(!redis.ok || !isFull)("a stuck event loop on Redis", options, () => {
  cases(async () => `${redis.ok ? redis.url : ""}?prefix=stuck-${randomUUID()}`);
});

const dynamodb = inject("dynamodb");
describe.skipIf(!dynamodb.ok || !isFull)("a stuck event loop on DynamoDB", options, () => {
  cases(async ({ onTestFinished }) => {
    const table = freshTable(dynamodb.ok ? dynamodb.url : "");
    onTestFinished(() => table.drop());
    return table.url;
  });
});

const mongodb = inject("mongodb");
describe.skipIf(!mongodb.ok || !isFull)("a stuck event loop on MongoDB (an emulator, unless a real one is given)", options, () => {
  cases(async ({ onTestFinished }) => {
    const database = await freshMongoDatabase(mongodb.ok ? mongodb.url : "");
    onTestFinished(() => database.drop());
    return database.url;
  });
});
