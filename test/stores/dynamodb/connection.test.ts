import { type AddressInfo, createServer } from "node:net";
import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { inspect, key as keyOf, NotKnownError, once, open, type Store, UnreachableError } from "onceflow";
import { type Begin, dynamoStore, type Settle } from "onceflow/store";
import { type CuttingProxy, cuttingProxy } from "onceflow/testing";
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from "vitest";
import { beginOf as contractBegin } from "../../../src/testing/contract/ledger/operations.js";
import { type FreshTable, freshTable } from "../../servers/dynamodb/tables.js";

const server = inject("dynamodb");
const endpoint = new URL((server.ok && new URL(server.url).searchParams.get("endpoint")) || "http://127.0.0.1:1");

/** Requests and replies are lost on real connections to the real server. */
describe.skipIf(!server.ok || endpoint.protocol !== "http:")("a DynamoDB connection that breaks", () => {
  let table: FreshTable;
  let proxy: CuttingProxy;
  /** Its SDK client makes three attempts. */
  let store: Store;
  /** Its SDK client makes one attempt. */
  let impatient: Store;
  let client: DynamoDBClient;
  let keys = 0;
  let key = "";

  beforeAll(async () => {
    table = freshTable(server.ok ? server.url : "");
    proxy = await cuttingProxy({ host: endpoint.hostname, port: Number(endpoint.port) });
    const url = new URL(table.url);
    url.searchParams.set("endpoint", `http://127.0.0.1:${proxy.port}`);
    store = await open(url.href);
    client = new DynamoDBClient({
      region: url.hostname,
      endpoint: `http://127.0.0.1:${proxy.port}`,
      credentials: { accessKeyId: url.username, secretAccessKey: url.password },
      maxAttempts: 1,
    });
    impatient = await dynamoStore({ client, table: url.pathname.slice(1) });
  });
  afterAll(async () => {
    await store.close();
    await impatient.close();
    client.destroy();
    await proxy.close();
    await table.drop();
  });
  beforeEach(() => {
    keys += 1;
    key = `cut-${keys}`;
  });

  const begin = (owner: string, fields: Partial<Begin> = {}) =>
    contractBegin({ key, owner, effect: "atMostOnce", leaseMs: 10_000, ...fields });
  const settle = (to: Settle["to"] = { state: "completed", outcome: "1" }): Settle => {
    return { verb: "settle", scope: "", key, owner: "me", attempt: 1, to, note: null };
  };
  const revOf = async () => (await store.read({ scope: "", key }))?.record.rev;

  for (const what of ["request", "reply"] as const) {
    test(`a begin whose ${what} is lost is resent by the SDK and recognised as done`, async () => {
      const before = proxy.cuts;
      proxy.cutNext(what);
      expect(await store.commit({ ledger: begin("me") })).toMatchObject({ kind: "started", attempt: 1 });
      expect(proxy.cuts - before).toBe(1);
      expect(await revOf()).toBe(1);
      expect(await store.commit({ ledger: begin("another") })).toMatchObject({ kind: "running", attempt: 1 });
    });

    test(`a settle whose ${what} is lost is resent by the SDK and recognised as done`, async () => {
      await store.commit({ ledger: begin("me") });
      const before = proxy.cuts;
      proxy.cutNext(what);
      expect(await store.commit({ ledger: settle() })).toEqual({ kind: "settled" });
      expect(proxy.cuts - before).toBe(1);
      expect(await revOf()).toBe(2);
      expect((await inspect(store, { key }))?.value).toBe(1);
    });

    test(`a second attempt whose ${what} is lost is resent by the SDK and counted once`, async () => {
      await store.commit({ ledger: begin("me") });
      await store.commit({ ledger: settle({ state: "free" }) });
      // The server refuses the first of its two requests, because the record exists. The second request is cut.
      const before = proxy.cuts;
      const taking = store.commit({ ledger: begin("taker") });
      await refusedOnce();
      proxy.cutNext(what);
      expect(await taking).toMatchObject({ kind: "started", attempt: 2 });
      expect(proxy.cuts - before).toBe(1);
      expect(await revOf()).toBe(3);
      expect((await inspect(store, { key }))?.attempts.map(({ attempt, owner }) => [attempt, owner])).toEqual([
        [1, "me"],
        [2, "taker"],
      ]);
    });

    test(`without retries of the SDK, a begin whose ${what} is lost throws NotKnownError; the same begin sent again has started`, async () => {
      proxy.cutNext(what);
      await expect(impatient.commit({ ledger: begin("me") })).rejects.toThrow(NotKnownError);
      expect(await impatient.commit({ ledger: begin("me") })).toMatchObject({ kind: "started", attempt: 1 });
      expect(await revOf()).toBe(1);
    });

    test(`without retries of the SDK, a settle whose ${what} is lost throws NotKnownError; the same settle sent again has settled`, async () => {
      await impatient.commit({ ledger: begin("me") });
      proxy.cutNext(what);
      await expect(impatient.commit({ ledger: settle() })).rejects.toThrow(NotKnownError);
      expect(await impatient.commit({ ledger: settle() })).toEqual({ kind: "settled" });
      expect(await revOf()).toBe(2);
    });

    test(`once calls the handler once if the ${what} of its begin and the ${what} of its settle are lost`, async () => {
      for (const [name, handle] of [
        ["sdk", store],
        ["impatient", impatient],
      ] as const) {
        let calls = 0;
        const before = proxy.cuts;
        proxy.cutNext(what);
        const result = await once(handle, { key: keyOf.of(`${key}-${name}`), effect: "atMostOnce" }, () => {
          calls += 1;
          proxy.cutNext(what);
          return "done";
        });
        expect(result).toMatchObject({ status: "executed", value: "done", attempt: 1 });
        expect([calls, proxy.cuts - before]).toEqual([1, 2]);
        expect((await inspect(store, { key: `${key}-${name}` }))?.attempts).toHaveLength(1);
      }
    });
  }

  /** Waits until the proxy has forwarded one reply: the refusal of the first request of the commit in progress. */
  async function refusedOnce(): Promise<void> {
    const before = proxy.replies;
    while (proxy.replies === before) await new Promise((turn) => setImmediate(turn));
  }

  test("one operation of a flush that fails does not fail its neighbours", async () => {
    const commits = ["a", "b", "c"].map((name) =>
      store.commit({ ledger: begin("me", { key: `${key}-${name}`, retentionMs: name === "b" ? Number.NaN : 1 }) }),
    );
    const [a, b, c] = await Promise.allSettled(commits);
    expect([a?.status, c?.status]).toEqual(["fulfilled", "fulfilled"]);
    expect(b).toMatchObject({ status: "rejected", reason: { code: "STORE_REFUSED" } });
  });

  test("an unreachable server is reported, without the secret", async () => {
    const url = new URL(table.url);
    url.searchParams.set("endpoint", "http://127.0.0.1:1");
    url.password = "secret";
    const error = await open(url.href).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(UnreachableError);
    expect(String(error)).toContain("ECONNREFUSED");
    expect(String(error)).not.toContain("secret");
  });

  test("a server that accepts and never answers does not hang the caller, also with a client without bounds", async () => {
    const silent = createServer(() => {});
    await new Promise<void>((listening) => void silent.listen(0, "127.0.0.1", listening));
    const address = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
    const url = new URL(table.url);
    url.searchParams.set("endpoint", address);
    const unbounded = new DynamoDBClient({
      region: "us-east-1",
      endpoint: address,
      credentials: { accessKeyId: "a", secretAccessKey: "b" },
    });
    await Promise.all([
      expect(open(url.href)).rejects.toThrow(UnreachableError),
      expect(dynamoStore({ client: unbounded, table: "anything" })).rejects.toThrow(UnreachableError),
    ]);
    unbounded.destroy();
    silent.close();
  }, 40_000);
});
