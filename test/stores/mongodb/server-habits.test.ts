import { type CommandStartedEvent, MongoClient } from "mongodb";
import { inspect, key, once, open, type Store } from "onceflow";
import { mongoStore } from "onceflow/store";
import { beforeAll, beforeEach, describe, expect, inject, onTestFinished, test, vi } from "vitest";
import { sayWhatIsUnusual } from "../../../src/stores/mongodb/connection/server.js";
import { beginOf } from "../../../src/testing/contract/ledger/operations.js";
import { acquire } from "../../servers/acquire.js";

/** Behaviour that MongoDB's documentation and sources describe, reproduced by the emulator. The tests use their own server, because they make it fail. */
describe.skipIf(!inject("mongodb").ok)("behaviour of a MongoDB server", () => {
  let url = "";
  let prefix = "";
  let prefixes = 0;
  beforeAll(async () => {
    const acquired = await acquire("mongodb");
    if (!acquired.ok) return;
    const { url: place, kill, stop } = acquired.running;
    if (kill !== undefined) url = place;
    return stop;
  });
  beforeEach(({ skip }) => {
    if (url === "") skip("the tests did not start this server, so they cannot make it fail");
    prefixes += 1;
    prefix = `habits_${prefixes}`;
  });

  async function client(options: ConstructorParameters<typeof MongoClient>[1] = {}): Promise<MongoClient> {
    const one = await new MongoClient(url, options).connect();
    onTestFinished(() => one.close());
    return one;
  }

  async function opened(): Promise<Store> {
    const store = await open(`${url}${url.includes("?") ? "&" : "?"}prefix=${prefix}`, { purgeEveryMs: 0 });
    onTestFinished(() => store.close());
    return store;
  }

  describe("an executed findAndModify that the driver sends again is answered without the projection", () => {
    /** The server executes the next findAndModify and answers that it shuts down: the driver sends the command again. */
    async function interruptNext(): Promise<void> {
      const data = {
        failCommands: ["findAndModify"],
        writeConcernError: { code: 91, codeName: "ShutdownInProgress", errmsg: "Replication is being shut down" },
        errorLabels: ["RetryableWriteError"],
      };
      await (await client()).db("admin").command({ configureFailPoint: "failCommand", mode: { times: 1 }, data });
    }

    test("open does not reject the server as unsupported", async () => {
      await interruptNext();
      const store = await opened();
      expect(await once(store, { key: key.of("a") }, () => 1)).toMatchObject({ status: "executed" });
    });

    test("begin, renew and resolve get their usual answers", async () => {
      const store = await opened();
      await interruptNext();
      const begin = beginOf({ leaseMs: 1, effect: "atMostOnce", owner: "me" });
      const began = await store.commit({ ledger: begin });
      expect(began).toMatchObject({ kind: "started", attempt: 1, startedAt: expect.any(Number), leaseUntil: expect.any(Number) });
      const of = { scope: "", key: begin.key, attempt: 1 };
      await interruptNext();
      const renewed = await store.commit({ ledger: { verb: "renew", ...of, owner: "me", leaseMs: 1 } });
      expect(renewed).toEqual({ kind: "renewed", leaseUntil: expect.any(Number) });
      await expect.poll(async () => (await store.list({ limit: 1, state: "unknown" })).length, { timeout: 60_000 }).toBe(1);
      await interruptNext();
      const to = { state: "completed", outcome: "1" } as const;
      expect(await store.commit({ ledger: { verb: "resolve", ...of, owner: "you", to, note: null } })).toEqual({ kind: "settled" });
      expect(await inspect(store, { key: begin.key })).toMatchObject({ state: "completed", attempt: 1, value: 1 });
    });

    test("a started run has its creation time", async () => {
      const store = await opened();
      await interruptNext();
      const start = { verb: "start", id: "run", workflow: "w", input: "1", fingerprint: null, parent: null, creator: "c" } as const;
      const answer = await store.commit({ run: { ...start, retentionMs: 0, first: null } });
      const { createdAt } = (await store.runs.read("run")) ?? {};
      expect(answer).toMatchObject({ kind: "created", now: createdAt });
    });
  });

  test("a command has at most 16 MB: progress of 9 MiB is sent once, and the next attempt gets it", async () => {
    const store = await opened();
    const progress = JSON.stringify("x".repeat(9 * 1024 * 1024));
    expect(await store.commit({ ledger: beginOf({ leaseMs: 1, progress }) })).toMatchObject({ kind: "started", attempt: 1 });
    const next = beginOf({ progress: JSON.stringify("y".repeat(9 * 1024 * 1024)) });
    const again = () => store.commit({ ledger: next });
    await expect.poll(async () => (await again()).kind, { timeout: 60_000 }).toBe("started");
    const answer = await again();
    expect(answer.kind === "started" && answer.attempt === 2 && answer.progress === progress).toBe(true);
  });

  test("a collection that can be sharded has no unique index without its shard key, which is _id", async () => {
    const own = await client({ monitorCommands: true });
    const sent: CommandStartedEvent[] = [];
    own.on("commandStarted", (event) => sent.push(event));
    await (await mongoStore({ client: own, prefix })).close();
    // The registry of key collections has a document per flow, and is not sharded.
    const indexes = sent
      .filter(({ commandName, command }) => commandName === "createIndexes" && command["createIndexes"] !== "onceflow_key_collections")
      .flatMap(({ command }) => command["indexes"]);
    expect(indexes.length).toBeGreaterThan(8);
    expect(indexes.filter(({ unique }) => unique)).toEqual([]);
  });
});

test("behind a router (mongos), leases use the router's clock, with a warning", () => {
  const warning = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
  onTestFinished(() => warning.mockRestore());
  const client = new MongoClient("mongodb://127.0.0.1:1");
  sayWhatIsUnusual(client, { replicated: true, routed: true });
  expect(String(warning.mock.calls[0]?.[0])).toMatch(/mongos.*two thirds of the shortest leaseMs/);
  warning.mockClear();
  sayWhatIsUnusual(client, { replicated: true, routed: false });
  expect(warning).not.toHaveBeenCalled();
});
