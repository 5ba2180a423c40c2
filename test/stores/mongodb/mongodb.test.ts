import { type AddressInfo, createServer } from "node:net";
import { type CommandStartedEvent, MongoClient } from "mongodb";
import {
  ConfigurationError,
  InvalidInputError,
  inspect,
  key,
  NotKnownError,
  once,
  open,
  ResultNotKeptError,
  type Store,
  UnreachableError,
} from "onceflow";
import { type Begin, mongoStore } from "onceflow/store";
import { beforeAll, beforeEach, describe, expect, inject, onTestFinished, test, vi } from "vitest";
import { acquire, type ProviderName } from "../../servers/acquire.js";

const server = inject("mongodb");
const url = server.ok ? server.url : "";
let prefixes = 0;
let prefix = "";

beforeEach(() => {
  prefixes += 1;
  prefix = `mongodb_${process.pid}_${prefixes}`;
});

function at(place: string, parameters: Record<string, string> = {}): string {
  const [address = "", query = ""] = place.split("?");
  return `${address}?${new URLSearchParams([...new URLSearchParams(query), ...Object.entries({ prefix, ...parameters })])}`;
}

async function opened(place = url, parameters: Record<string, string> = {}): Promise<Store> {
  const store = await open(at(place, parameters), { purgeEveryMs: 0 });
  onTestFinished(() => store.close());
  return store;
}

async function client(options: ConstructorParameters<typeof MongoClient>[1] = {}, place = url): Promise<MongoClient> {
  const one = await new MongoClient(place, options).connect();
  onTestFinished(() => one.close());
  return one;
}

function warnings(): string[] {
  const messages: string[] = [];
  const spy = vi.spyOn(process, "emitWarning").mockImplementation((warning) => void messages.push(String(warning)));
  onTestFinished(() => spy.mockRestore());
  return messages;
}

/** The URL of a server other than the one that the suites share. */
async function other(name: ProviderName): Promise<string | undefined> {
  const acquired = await acquire(name);
  if (!acquired.ok) return undefined;
  onTestFinished(() => acquired.running.stop());
  return (acquired.running as { url: string }).url;
}

const begin = (owner: string, more: Partial<Begin> = {}): Begin => ({
  ...{ verb: "begin", scope: "", key: "operation", owner, fingerprint: null, effect: "idempotent", leaseMs: 60_000 },
  ...{ retentionMs: 60_000, horizonMs: 0, reconcileAfterMs: 0, over: null, progress: null },
  ...more,
});

describe.skipIf(!server.ok)("opening a MongoDB store", () => {
  test("weaker settings in the URL are overridden with a warning", async () => {
    const warned = warnings();
    await opened(url, { w: "1", readPreference: "secondaryPreferred" });
    expect(warned).toHaveLength(2);
    expect(warned[0]).toContain('with w: "majority", j: true anyway');
    expect(warned[1]).toContain("from the primary anyway");
  });

  test("an ordinary URL produces no warning", async () => {
    const warned = warnings();
    await opened(url, { w: "majority" });
    expect(warned).toEqual([]);
  });

  test("every write uses w: majority with j: true and every read uses majority, also if the client has weaker settings", async () => {
    const own = await client({ monitorCommands: true, writeConcern: { w: 1 }, readPreference: "nearest", readConcern: { level: "local" } });
    const sent: CommandStartedEvent[] = [];
    own.on("commandStarted", (event) => sent.push(event));
    warnings();
    const store = await mongoStore({ client: own, prefix, purgeEveryMs: 0, audit: "all" });
    await once(store, { key: key.of("a"), retentionMs: 0 }, () => 1);
    await inspect(store, { key: "a" });
    await store.list({ limit: 10 });
    await store.audited({ scope: "", key: "a" }, 10);
    await store.purge({ limit: 10 });
    await store.close();
    const writes = sent.filter(({ commandName }) => /^(findAndModify|update|insert|delete)$/.test(commandName));
    expect(new Set(writes.map(({ commandName }) => commandName))).toEqual(new Set(["findAndModify", "update", "delete"]));
    for (const { command } of writes) expect(command["writeConcern"]).toMatchObject({ w: "majority", j: true });
    const reads = sent.filter(({ commandName }) => commandName === "find");
    expect(reads.length).toBeGreaterThan(2);
    for (const { command } of reads) expect(command["readConcern"]).toMatchObject({ level: "majority" });
    for (const { command } of reads) expect(command["$readPreference"]?.mode ?? "primary").toBe("primary");
  });

  test("a client that the user passed is not closed with the store", async () => {
    const own = await client();
    const store = await mongoStore({ client: own, prefix });
    await once(store, { key: key.of("a") }, () => 1);
    await store.close();
    expect(await own.db().command({ ping: 1 })).toMatchObject({ ok: 1 });
    await expect(mongoStore({ client: {} as MongoClient })).rejects.toThrow(InvalidInputError);
  });

  test("a standalone server supports the ledger only, with a warning", async ({ skip }) => {
    const alone = await other("mongodbStandalone");
    if (alone === undefined) return skip("no such server");
    const warned = warnings();
    const store = await opened(alone);
    expect(warned.join()).toContain("not in a replica set");
    expect(store.capabilities).toEqual({ transactions: false, sharedClock: true, durable: true, runs: false, packets: false });
    expect(() => store.runs).toThrow(/does not support workflows/);
    expect(await once(store, { key: key.of("a") }, () => 1)).toMatchObject({ status: "executed", value: 1 });
    expect(await once(store, { key: key.of("a") }, () => 2)).toMatchObject({ status: "replayed", value: 1 });
  });

  test("a server that is too old is refused", async ({ skip }) => {
    const old = await other("mongodbOld");
    if (old === undefined) return skip("no such server");
    await expect(open(at(old))).rejects.toThrow(/too old.*use MongoDB 5\.0 or newer/);
  });

  test("a server that speaks the protocol but has no clock and no pipelines (jongodb) is refused", async ({ skip }) => {
    const foreign = await other("jongodb");
    if (foreign === undefined) return skip("no such server");
    const refused = await open(at(foreign)).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(ConfigurationError);
    expect(refused).toMatchObject({ code: "UNSUPPORTED_SERVER" });
  });

  test("collections of a newer version are refused", async () => {
    const own = await client();
    await own.db().collection<{ _id: string; version: number }>(`${prefix}_meta`).insertOne({ _id: "schema", version: 99 });
    await expect(open(at(url))).rejects.toMatchObject({ code: "SCHEMA_NEWER" });
  });

  test("an invalid address is refused with an error that does not contain the password", async () => {
    for (const wrong of ["mongodb://me:secret@", "mongodb://me:secret@host/db?nonsense=1", "mongodb://me:sec%ret@host:99999999/"]) {
      const refused = await open(wrong).catch((error: unknown) => error);
      expect(refused).toBeInstanceOf(InvalidInputError);
      expect(String(refused)).not.toContain("sec");
    }
    await expect(open(`${url}?prefix=a$b`)).rejects.toThrow(InvalidInputError);
  });

  test("an unreachable server is reported in bounded time, without the password", async () => {
    const refused = await open("mongodb://me:secret@127.0.0.1:1/db?serverSelectionTimeoutMS=300").catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(UnreachableError);
    expect(String(refused)).toContain("127.0.0.1:1");
    expect(String(refused)).not.toContain("secret");
  });

  test("a server that accepts and never answers does not hang the caller", async () => {
    const silent = createServer(() => {});
    await new Promise<void>((listening) => void silent.listen(0, "127.0.0.1", listening));
    onTestFinished(() => void silent.close());
    const { port } = silent.address() as AddressInfo;
    await expect(open(`mongodb://127.0.0.1:${port}/db?serverSelectionTimeoutMS=500&connectTimeoutMS=500`)).rejects.toThrow(
      UnreachableError,
    );
  });
});

describe.skipIf(!server.ok)("documents in MongoDB", () => {
  test("text that looks like a MongoDB expression is stored as text", async () => {
    const store = await opened();
    const text = "$$NOW";
    const operation = begin("$state", { scope: "$where", key: "$owner", fingerprint: "$key" });
    expect(await store.commit({ ledger: operation })).toMatchObject({ kind: "started", attempt: 1 });
    expect(await store.commit({ ledger: { ...operation, owner: "$attempt", fingerprint: "$rev" } })).toMatchObject({ kind: "mismatch" });
    const settle = { verb: "settle", scope: "$where", key: "$owner", owner: "$state", attempt: 1 } as const;
    await store.commit({ ledger: { ...settle, to: { state: "completed", outcome: text }, note: "$note" } });
    const reading = await store.read({ scope: "$where", key: "$owner" });
    expect(reading?.record).toMatchObject({
      scope: "$where",
      key: "$owner",
      owner: "$state",
      fingerprint: "$key",
      outcome: text,
      note: "$note",
    });
  });

  test("the TTL index removes completed and failed records only", async () => {
    const store = await opened();
    const settles = {
      completed: { state: "completed", outcome: "1" },
      failed: { state: "failed", outcome: "1" },
      free: { state: "free" },
      unknown: { state: "unknown" },
      running: undefined,
    } as const;
    for (const [name, to] of Object.entries(settles)) {
      await store.commit({ ledger: begin(name, { key: name, effect: "atMostOnce", retentionMs: 0 }) });
      if (to) await store.commit({ ledger: { verb: "settle", scope: "", key: name, owner: name, attempt: 1, to, note: null } });
    }
    const documents = await (await client())
      .db()
      .collection(`${prefix}_records`)
      .find({ removeAt: { $type: "date" } })
      .toArray();
    expect(documents.map((document) => document["state"]).sort()).toEqual(["completed", "failed"]);
    for (const document of documents) expect(document["removeAt"].getTime()).toBe(document["goneAt"]);
    await store.commit({ ledger: begin("next", { key: "completed" }) });
    expect(await (await client()).db().collection(`${prefix}_records`).findOne({ key: "completed" })).not.toHaveProperty("removeAt");
  });

  test("the log of a key's attempts is bounded: the newest attempts stay", async () => {
    const store = await opened();
    await store.commit({ ledger: begin("first") });
    const past = Array.from({ length: 1000 }, (_, i) => ({
      attempt: i + 1,
      owner: "o",
      startedAt: 1,
      endedAt: 1,
      verdict: "threw",
      note: null,
    }));
    const records = (await client()).db().collection(`${prefix}_records`);
    await records.updateOne({ key: "operation" }, { $set: { past, attempt: 1001, state: "free", verdict: "threw", settledAt: 5 } });
    expect(await store.commit({ ledger: begin("next") })).toMatchObject({ kind: "started", attempt: 1002 });
    const log = await store.attempts({ scope: "", key: "operation", afterAttempt: 0, limit: 5000 });
    expect([log.length, log[0]?.attempt, log.at(-1)?.attempt]).toEqual([1000, 2, 1001]);
  });

  test("a run that is purged leaves nothing behind: journal, long input, mail and hooks go with it", async () => {
    const store = await opened();
    const entry = { events: "[]", consumed: null, children: [], then: { kind: "hold" } } as const;
    const start = { verb: "start", workflow: "w", fingerprint: null, parent: null, creator: "c", retentionMs: 0 } as const;
    const hooks = [{ add: "token", about: "hook", metadata: null }];
    const first = { owner: "me", leaseMs: 60_000, entry: { ...entry, hooks } };
    await store.commit({ run: { ...start, id: "run", input: "long ".repeat(1000), first } });
    await store.commit({ run: { verb: "send", to: { token: "token" }, kind: "hook", about: null, payload: "1", key: "mail" } });
    const database = (await client()).db();
    const left = async () => {
      const counts: number[] = [];
      for (const name of ["runs", "journal", "mail", "hooks"])
        counts.push((await database.collection(`${prefix}_${name}`).find().toArray()).length);
      return counts;
    };
    expect(await left()).toEqual([1, 2, 1, 1]);
    const end = { ...entry, hooks: [], then: { kind: "end", status: "completed", output: null } } as const;
    await store.commit({ run: { verb: "append", id: "run", creator: "c", epoch: 1, seq: 2, entry: end } });
    expect(await left()).toEqual([1, 3, 1, 0]);
    expect(await store.runs.purge(10)).toBe(1);
    expect(await left()).toEqual([0, 0, 0, 0]);
  });

  test("a key whose result is too large for a document is completed without the result", async () => {
    const store = await open(at(url), { valueBytesMax: 64 * 1024 * 1024, purgeEveryMs: 0 });
    onTestFinished(() => store.close());
    const large = "x".repeat(16 * 1024 * 1024);
    warnings();
    expect(await once(store, { key: key.of("large") }, () => large)).toMatchObject({ status: "executed" });
    await expect(once(store, { key: key.of("large") }, () => "again")).rejects.toThrow(ResultNotKeptError);
  });
});

describe.skipIf(!server.ok)("errors of a MongoDB server", () => {
  /** Its own server: a fail point affects the whole server, and other suites use the shared one. */
  let failer = "";
  beforeAll(async () => {
    const acquired = await acquire("mongodb");
    if (!acquired.ok) return;
    const { url: place, kill, stop } = acquired.running;
    if (kill !== undefined) failer = place;
    return stop;
  });
  beforeEach(({ skip }) => {
    if (failer === "") skip("the tests did not start this server, so they cannot make it fail");
  });

  async function failing(own: MongoClient, data: object, times = 1): Promise<void> {
    const set = { configureFailPoint: "failCommand", mode: { times }, data };
    await own.db("admin").command(set);
    onTestFinished(async () => void (await own.db("admin").command({ ...set, mode: "off" })));
  }

  test("two inserts at the same time: the one with the duplicate key error reads the document and continues", async () => {
    const store = await opened(failer);
    await failing(await client({}, failer), { failCommands: ["findAndModify"], errorCode: 11000 });
    expect(await store.commit({ ledger: begin("me") })).toMatchObject({ kind: "started", attempt: 1 });
  });

  test("a write that a majority did not confirm in time throws NotKnownError; sent again, it is recognised as done", async () => {
    const store = await opened(failer, { retryWrites: "false" });
    const writeConcernError = { code: 64, codeName: "WriteConcernTimeout", errmsg: "waiting for replication timed out" };
    await failing(await client({}, failer), { failCommands: ["findAndModify", "update"], writeConcernError });
    await expect(store.commit({ ledger: begin("me") })).rejects.toThrow(NotKnownError);
    expect(await store.commit({ ledger: begin("me") })).toMatchObject({ kind: "started", attempt: 1 });
    await failing(await client({}, failer), { failCommands: ["findAndModify", "update"], writeConcernError });
    const settle = { verb: "settle", scope: "", key: "operation", owner: "me", attempt: 1, to: { state: "free" }, note: null } as const;
    await expect(store.commit({ ledger: settle })).rejects.toThrow(NotKnownError);
    expect(await store.commit({ ledger: settle })).toEqual({ kind: "settled" });
  });

  for (const [code, meaning] of [
    [112, UnreachableError],
    [10107, UnreachableError],
    [91, NotKnownError],
    [11602, NotKnownError],
    [50, NotKnownError],
  ] as const) {
    test(`code ${code} means ${meaning.kind}`, async () => {
      const store = await opened(failer, { retryWrites: "false" });
      await failing(await client({}, failer), { failCommands: ["findAndModify"], errorCode: code });
      await expect(store.commit({ ledger: begin("me") })).rejects.toThrow(meaning);
    });
  }

  test("a refused operation fails for its own caller only", async () => {
    const store = await opened(failer);
    await failing(await client({}, failer), { failCommands: ["findAndModify"], errorCode: 121 });
    const answers = await Promise.allSettled(["a", "b", "c"].map((one) => store.commit({ ledger: begin(one, { key: one }) })));
    expect(answers.filter(({ status }) => status === "rejected")).toHaveLength(1);
    expect(answers.find((answer) => answer.status === "rejected")).toMatchObject({ reason: { code: "STORE_REFUSED" } });
  });
});
