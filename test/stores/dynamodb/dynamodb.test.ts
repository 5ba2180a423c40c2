import { randomBytes, randomUUID } from "node:crypto";
import { CreateTableCommand, type DynamoDBClient, GetItemCommand, PutItemCommand } from "@aws-sdk/client-dynamodb";
import { ConfigurationError, inspect, key, list, once, open, purge, ResultNotKeptError, resolve } from "onceflow";
import { type DynamoClient, dynamoStore, type Store } from "onceflow/store";
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test, vi } from "vitest";
import { clientOf } from "../../servers/dynamodb/tables.js";

const server = inject("dynamodb");

interface Sent {
  readonly name: string;
  readonly input: Readonly<Record<string, unknown>>;
}

describe.skipIf(!server.ok)("the DynamoDB store", () => {
  const { client, close } = clientOf(server.ok ? server.url : "dynamodb://none/");
  afterAll(close);

  /** A client that records what is sent. `answer` can reply in place of the server. */
  function watched(answer: (sent: Sent) => Promise<unknown> | undefined = () => undefined): { client: DynamoClient; sent: Sent[] } {
    const sent: Sent[] = [];
    const send = (command: { input: object; constructor: { name: string } }, options?: never) => {
      const one = { name: command.constructor.name.replace("Command", ""), input: command.input as Sent["input"] };
      sent.push(one);
      return answer(one) ?? client.send(command as never, options);
    };
    return { client: { send } as unknown as DynamoClient, sent };
  }

  const newName = () => `onceflow_test_${randomUUID()}`;

  async function openStore(over: Partial<Parameters<typeof dynamoStore>[0]> = {}): Promise<Store> {
    const store = await dynamoStore({ client: client as DynamoClient, table: newName(), create: true, ...over });
    onTestFinished(() => store.close());
    return store;
  }

  const itemOf = async (TableName: string, id: string, partitionKey = "id") =>
    (await client.send(new GetItemCommand({ TableName, Key: { [partitionKey]: { S: id } }, ConsistentRead: true }))).Item;

  describe("the table", () => {
    test("is not created by default: the error says how to create it", async () => {
      const error = await openStore({ create: false }).catch((e: unknown) => e);
      expect(error).toBeInstanceOf(ConfigurationError);
      expect(error).toMatchObject({ code: "MISSING_TABLE", message: expect.stringContaining("create=true") });
    });

    test("must have one key, a string; other key schemas are refused, and the error names their attributes", async () => {
      const table = newName();
      await client.send(
        new CreateTableCommand({
          TableName: table,
          BillingMode: "PAY_PER_REQUEST",
          KeySchema: [
            { AttributeName: "id", KeyType: "HASH" },
            { AttributeName: "sort", KeyType: "RANGE" },
          ],
          AttributeDefinitions: [
            { AttributeName: "id", AttributeType: "S" },
            { AttributeName: "sort", AttributeType: "S" },
          ],
        }),
      );
      await expect(openStore({ table, create: false })).rejects.toMatchObject({ code: "UNSUITABLE_TABLE", message: /"id" and "sort"/ });
    });

    test("may have configured names for the key and the TTL attribute", async () => {
      const table = newName();
      const store = await openStore({ table, partitionKey: "pk", ttlAttribute: "expiration" });
      await once(store, { scope: "shop", key: key.of("order-1") }, () => 1);
      expect(await itemOf(table, "4:shop:order-1", "pk")).toMatchObject({
        state: { S: "completed" },
        expiration: { N: expect.any(String) },
      });
      expect((await once(store, { scope: "shop", key: key.of("order-1") }, () => 2)).value).toBe(1);
      expect((await list(store, { scope: "shop" })).items).toHaveLength(1);
      await expect(openStore({ table })).rejects.toMatchObject({ code: "UNSUITABLE_TABLE" });
      await expect(openStore({ partitionKey: "owner" })).rejects.toMatchObject({ code: "INVALID_INPUT" });
      await expect(openStore({ ttlAttribute: "rev" })).rejects.toMatchObject({ code: "INVALID_INPUT" });
    });

    test("with items of a newer format is refused, and the items stay as they are", async () => {
      const table = newName();
      const store = await openStore({ table });
      await client.send(new PutItemCommand({ TableName: table, Item: { id: { S: "0::new" }, format: { N: "2" }, rev: { N: "1" } } }));
      await expect(once(store, { key: key.of("new") }, () => 1)).rejects.toMatchObject({ code: "SCHEMA_NEWER" });
    });
  });

  describe("warnings when a table is opened", () => {
    const warnings: string[] = [];
    beforeAll(() => {
      const spy = vi.spyOn(process, "emitWarning").mockImplementation((warning) => void warnings.push(String(warning)));
      return () => spy.mockRestore();
    });

    async function warningsOf(answer: (sent: Sent) => Promise<unknown> | undefined, create = true): Promise<string[]> {
      warnings.length = 0;
      await openStore({ client: watched(answer).client, create });
      return [...warnings];
    }
    const described = (extra: object) => ({
      Table: {
        TableStatus: "ACTIVE",
        KeySchema: [{ AttributeName: "id", KeyType: "HASH" }],
        AttributeDefinitions: [{ AttributeName: "id", AttributeType: "S" }],
        ...extra,
      },
    });
    const removal = (AttributeName: string) => ({ TimeToLiveDescription: { TimeToLiveStatus: "ENABLED", AttributeName } });
    const answering =
      (answers: Readonly<Record<string, object>>) =>
      ({ name }: Sent) => {
        const answer = answers[name];
        return answer === undefined ? undefined : answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
      };
    const denied = Object.assign(new Error("no"), { name: "AccessDeniedException", $metadata: { httpStatusCode: 400, attempts: 1 } });

    test("a suitable table: none", async () => {
      expect(await warningsOf(() => undefined)).toEqual([]);
    });

    test("a global table with eventual consistency between regions", async () => {
      const replicas = { Replicas: [{ RegionName: "eu-west-1" }] };
      const DescribeTimeToLive = removal("ttl");
      expect(await warningsOf(answering({ DescribeTable: described(replicas), DescribeTimeToLive }))).toEqual([
        expect.stringContaining("two regions can begin the same key"),
      ]);
      const strong = described({ ...replicas, MultiRegionConsistency: "STRONG" });
      expect(await warningsOf(answering({ DescribeTable: strong, DescribeTimeToLive }))).toEqual([]);
    });

    test("a time to live that is off, or on another attribute", async () => {
      const DescribeTable = described({});
      const off = { TimeToLiveDescription: { TimeToLiveStatus: "DISABLED" } };
      expect(await warningsOf(answering({ DescribeTable, DescribeTimeToLive: off }), false)).toEqual([
        expect.stringContaining('time to live is not enabled, but should be enabled on "ttl"'),
      ]);
      expect(await warningsOf(answering({ DescribeTable, DescribeTimeToLive: removal("expires") }))).toEqual([
        expect.stringContaining('time to live is enabled on "expires", but should be enabled on "ttl"'),
      ]);
    });

    test("a request for which the permission is missing", async () => {
      expect(await warningsOf(answering({ DescribeTable: denied }))).toEqual([expect.stringContaining("could not be checked")]);
      expect(await warningsOf(answering({ DescribeTable: described({}), DescribeTimeToLive: denied }))).toEqual([
        expect.stringContaining("could not be checked"),
      ]);
    });
  });

  test("every read is consistent, for every operation", async () => {
    const { client: watching, sent } = watched();
    const store = await openStore({ client: watching, audit: "all" });
    const options = { key: key.of("read"), retentionMs: 60_000 };
    for (let i = 0; i < 3; i++) await once(store, options, () => 1);
    await once(store, { key: key.of("over"), retentionMs: 0 }, () => 1);
    await once(store, { key: key.of("doubt"), effect: "atMostOnce" }, () => Promise.reject(new Error("?"))).catch(() => {});
    await resolve(store, { key: "doubt", attempt: 1 }, "notApplied");
    await inspect(store, { key: "read" });
    for (const state of ["completed", "unknown", undefined] as const) await list(store, state === undefined ? {} : { state });
    await purge(store);
    const reads = sent.filter(({ name }) => /^(Get|BatchGet|Query|Scan|TransactGet)/.test(name));
    expect(new Set(reads.map(({ name }) => name))).toEqual(new Set(["GetItem", "Scan"]));
    expect(reads.filter(({ input }) => input["ConsistentRead"] !== true)).toEqual([]);
  });

  test("round trips are as many as the docs say", async () => {
    const { client: watching, sent } = watched();
    const store = await openStore({ client: watching });
    const trips = async (work: () => Promise<unknown>) => {
      sent.length = 0;
      await work().catch(() => {});
      return sent.map(({ name }) => name);
    };
    const options = { key: key.of("trips"), input: 1 };
    const fail = { key: key.of("fails") };
    expect(await trips(() => once(store, options, () => 1))).toEqual(["PutItem", "UpdateItem"]);
    expect(await trips(() => once(store, options, () => 1))).toEqual(["PutItem"]);
    // A key that was replayed is likely to be replayed again: a read costs less than a refused write.
    expect(await trips(() => once(store, options, () => 1))).toEqual(["GetItem"]);
    expect(await trips(() => once(store, { ...options, input: 2 }, () => 1))).toEqual(["GetItem"]);
    expect(await trips(() => once(store, fail, () => Promise.reject(new Error("no"))))).toEqual(["PutItem", "UpdateItem"]);
    expect(await trips(() => once(store, fail, () => 1))).toEqual(["PutItem", "PutItem", "UpdateItem"]);
  });

  test("DynamoDB may remove a settled record after its horizon, and never a running or unknown one", async () => {
    const table = newName();
    const store = await openStore({ table });
    const ttlOf = async (name: string) => Number((await itemOf(table, `0::${name}`))?.["ttl"]?.N ?? Number.NaN);
    const options = { retentionMs: 100_000, horizonMs: 20_000 };
    await once(store, { key: key.of("a"), ...options, retentionMs: 0, horizonMs: 0 }, () => Promise.reject(new Error("again"))).catch(
      () => {},
    );
    expect(await ttlOf("a")).toBeGreaterThan(Date.now() / 1000);
    await once(store, { key: key.of("a"), ...options }, async () => {
      expect(await ttlOf("a")).toBeNaN();
    });
    const settledAt = Number((await inspect(store, { key: "a" }))?.settledAt);
    expect(await ttlOf("a")).toBe(Math.floor(settledAt / 1000) + 120 + 3600);
    await once(store, { key: key.of("b"), ...options, effect: "atMostOnce" }, () => Promise.reject(new Error("?"))).catch(() => {});
    expect(await ttlOf("b")).toBeNaN();
    await resolve(store, { key: "b", attempt: 1 }, { completed: 1 });
    expect(await ttlOf("b")).toBeGreaterThan(Date.now() / 1000 + 3600);
    await once(store, { key: key.of("ever"), retentionMs: "forever" }, () => 1);
    expect(await ttlOf("ever")).toBeGreaterThan(Date.now() / 1000 + 1000 * 366 * 24 * 3600);
  });

  describe("results near and over the limit of an item", () => {
    const noise = (bytes: number) =>
      randomBytes(bytes)
        .toString("latin1")
        .replaceAll(/[^ -~]/g, "x")
        .replaceAll(/["\\]/g, "y");
    const random = (bytes: number) => randomBytes(bytes).toString("base64").slice(0, bytes);

    test("are compressed, and come back equal", async () => {
      const table = newName();
      const store = await openStore({ table });
      const text = JSON.stringify(Array.from({ length: 12_000 }, (_, i) => ({ order: i, note: noise(20) })));
      expect(Buffer.byteLength(text)).toBeGreaterThan(400 * 1024);
      await once(store, { key: key.of("large") }, () => text);
      expect((await once(store, { key: key.of("large") }, () => "")).value).toBe(text);
      const item = await itemOf(table, "0::large");
      expect(item?.["outcome"]?.B?.byteLength).toBeLessThan(Buffer.byteLength(text));
    });

    test("that are still too large when compressed are reported as not kept, and the handler never runs again", async () => {
      const store = await openStore();
      // Compression leaves three quarters of such text: 345 KiB fit into an item, 390 KiB do not.
      const fits = random(460 * 1024);
      await once(store, { key: key.of("fits") }, () => fits);
      expect((await once(store, { key: key.of("fits") }, () => "")).value === fits).toBe(true);
      for (const bytes of [520 * 1024, 3 * 1024 * 1024]) {
        const k = key.of(`too large ${bytes}`);
        const value = random(bytes);
        expect((await once(store, { key: k }, () => value)).value === value).toBe(true);
        const replayed = await once(store, { key: k }, () => "it must not run again").catch((error: unknown) => error);
        expect(replayed).toBeInstanceOf(ResultNotKeptError);
        expect(await inspect(store, { key: k })).toMatchObject({ state: "completed", kept: false, attempt: 1 });
      }
    });
  });

  test("the newest hundred attempts of a key are kept, and the attempt number keeps growing", async () => {
    const store = await openStore();
    const options = { key: key.of("stubborn") };
    for (let i = 0; i < 110; i++) await once(store, options, () => Promise.reject(new Error("no"))).catch(() => {});
    expect((await once(store, options, () => 1)).attempt).toBe(111);
    const log = await store.attempts({ scope: "", key: "stubborn", afterAttempt: 0, limit: 1000 });
    expect(log.map(({ attempt }) => attempt)).toEqual(Array.from({ length: 100 }, (_, i) => i + 11));
  });

  test("the audit log of a key keeps the newest calls and is trimmed after two hundred", async () => {
    const store = await openStore({ audit: "all" });
    const options = { key: key.of("popular") };
    await once(store, options, () => 1);
    for (let i = 0; i < 3; i++) {
      await Promise.all(Array.from({ length: 90 }, () => once(store, options, () => 2)));
      await expect.poll(async () => (await store.audited({ scope: "", key: "popular" }, 1000)).length).toBe(i < 2 ? 90 * (i + 1) : 270);
    }
    await once(store, options, () => 2);
    await expect.poll(async () => (await store.audited({ scope: "", key: "popular" }, 1000)).length).toBe(171);
  });

  test("a purge that dies between a record and its log leaves the log, which has its own date of removal", async () => {
    const table = newName();
    const dying = watched(({ name, input }) =>
      name === "DeleteItem" && JSON.stringify(input).includes("audit:") ? Promise.reject(new Error("dead")) : undefined,
    );
    const store = await openStore({ table, client: dying.client, audit: "all" });
    const options = { key: key.of("over"), retentionMs: 0, horizonMs: 60_000 };
    await once(store, options, () => 1);
    await once(store, options, () => 1).catch(() => {});
    await expect.poll(() => store.audited({ scope: "", key: "over" }, 10)).toHaveLength(1);
    await once(store, { ...options, key: key.of("now"), horizonMs: 0 }, () => 1);
    await expect(purge(store)).rejects.toThrow("dead");
    expect(await store.read({ scope: "", key: "now" })).toBeUndefined();
    expect(await once(store, { key: key.of("now") }, () => "new")).toMatchObject({ status: "executed", attempt: 1 });
    const log = await itemOf(table, "audit:0::over");
    expect(Number(log?.["ttl"]?.N)).toBeGreaterThan(Date.now() / 1000 + 29 * 24 * 3600);
  });

  test("a client that the user passed is left open", async () => {
    const store = await dynamoStore({ client: client as DynamoClient, table: newName(), create: true });
    await store.close();
    expect(await (client as DynamoDBClient).config.region()).toBeDefined();
    await openStore();
    await expect(dynamoStore({ client: {} as DynamoClient, table: "abc" })).rejects.toMatchObject({ code: "INVALID_INPUT" });
  });
});

describe("the URL of a DynamoDB store", () => {
  test.each([
    ["dynamodb://eu-central-1/", /name of a table/],
    ["dynamodb:///operations", /region/],
    ["dynamodb://eu-central-1/operations?crate=true", /unknown parameter "crate"/],
    ["dynamodb://eu-central-1/operations?create=yes", /"true" or "false"/],
    ["dynamodb://id@eu-central-1/operations", /both parts/],
    ["dynamodb://id:se%cret@eu-central-1/operations", /percent-encoded/],
    ["dynamodb://eu-central-1/operations?endpoint=dax://mine.dax-clusters.eu-central-1.amazonaws.com", /DAX/],
  ])("%s is refused with a reason that contains no secret", async (url, reason) => {
    const error = await open(url).catch((e: unknown) => e);
    expect(error).toMatchObject({ code: "INVALID_INPUT", message: reason });
    expect(String(error)).not.toContain("se%cret");
  });
});
