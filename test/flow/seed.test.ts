import { randomUUID } from "node:crypto";
import { CreateTableCommand, DeleteTableCommand, DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { Redis } from "ioredis";
import { open } from "onceflow";
import { create, createIdempotencyStore, dynamoIdempotencyStore, FlowAlreadyRunningError, redisIdempotencyStore } from "onceflow/flow";
import { createClient } from "redis";
import { describe, expect, inject, test, vi } from "vitest";

/** The examples that this package started from, as printed, except for the name of the package. */
describe("set up a store, run with a key", () => {
  test("in memory", async () => {
    const store = createIdempotencyStore();
    const flow = create("my-flow", { idempotency: store });
    const body = vi.fn();
    flow.step("work", body);
    const input = { order: 1 };
    const result = await flow.run(input, { key: "unique-request-id-123", ttlMs: 3600000 });
    expect(result.status).toBe("completed");
    expect(await flow.run(input, { key: "unique-request-id-123", ttlMs: 3600000 })).toEqual(result);
    expect(body).toHaveBeenCalledTimes(1);
  });

  test('a running key is returned as "running" or thrown', async () => {
    const flow = create("my-flow", { idempotency: createIdempotencyStore() });
    let release = () => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    flow.step("work", () => released);
    const input = { order: 1 };
    const first = flow.run(input, { key: "payment:123" });
    await vi.waitFor(async () => expect(await flow.run(input, { key: "payment:123" })).toMatchObject({ status: "running" }));
    await expect(flow.run(input, { key: "payment:123", throwIfRunning: true })).rejects.toBeInstanceOf(FlowAlreadyRunningError);
    release();
    await first;
  });

  test("cacheResult: false", async () => {
    const flow = create("my-flow", { idempotency: createIdempotencyStore() });
    const body = vi.fn();
    flow.step("work", body);
    const input = { order: 1 };
    for (let i = 0; i < 2; i++) await flow.run(input, { key: "payment:123", cacheResult: false });
    expect(body).toHaveBeenCalledTimes(2);
  });
});

describe("distributed", () => {
  const redis = inject("redis");
  const dynamodb = inject("dynamodb");

  test("Redis, by node-redis", async ({ skip, onTestFinished }) => {
    if (!redis.ok) return skip(redis.reason);
    const redisClient = createClient({ url: redis.url });
    await redisClient.connect();
    onTestFinished(() => void redisClient.close());
    const store = redisIdempotencyStore(redisClient, { prefix: "seed" });
    await runsOnce(store);
  });

  test("Redis, by ioredis", async ({ skip, onTestFinished }) => {
    if (!redis.ok) return skip(redis.reason);
    const redisClient = new Redis(redis.url);
    onTestFinished(() => void redisClient.quit());
    await runsOnce(redisIdempotencyStore(redisClient, { prefix: "seed-io" }));
  });

  test("DynamoDB", async ({ skip, onTestFinished }) => {
    if (!dynamodb.ok) return skip(dynamodb.reason);
    const { hostname: region, searchParams } = new URL(dynamodb.url);
    const credentials = { accessKeyId: "local", secretAccessKey: "local" };
    const client = new DynamoDBClient({ region, endpoint: searchParams.get("endpoint") ?? "", credentials });
    onTestFinished(() => client.destroy());
    const store = dynamoIdempotencyStore(client, { tableName: "orchestrix-idempotency", create: true });
    await runsOnce(store);
  });

  test("DynamoDB, on a table with the partition key of the original example: key", async ({ skip, onTestFinished }) => {
    if (!dynamodb.ok) return skip(dynamodb.reason);
    const { hostname: region, searchParams } = new URL(dynamodb.url);
    const credentials = { accessKeyId: "local", secretAccessKey: "local" };
    const client = new DynamoDBClient({ region, endpoint: searchParams.get("endpoint") ?? "", credentials });
    onTestFinished(() => client.destroy());
    const tableName = `seed-${randomUUID()}`;
    await client.send(
      new CreateTableCommand({
        TableName: tableName,
        BillingMode: "PAY_PER_REQUEST",
        KeySchema: [{ AttributeName: "key", KeyType: "HASH" }],
        AttributeDefinitions: [{ AttributeName: "key", AttributeType: "S" }],
      }),
    );
    onTestFinished(async () => void (await client.send(new DeleteTableCommand({ TableName: tableName }))));
    await runsOnce(dynamoIdempotencyStore(client, { tableName }));
    // Also by URL, and for the thread that renews leases in place of a stuck process.
    const url = new URL(dynamodb.url);
    url.pathname = `/${tableName}`;
    const store = await open(url.href);
    onTestFinished(() => store.close());
    expect(await store.read({ scope: "", key: "payment:1" })).toMatchObject({ record: { state: "completed" } });
  });

  async function runsOnce(store: ReturnType<typeof createIdempotencyStore>): Promise<void> {
    const body = vi.fn();
    const flow = create("payment-flow", { idempotency: store }).step("charge", body);
    const results = await Promise.all(Array.from({ length: 5 }, () => flow.run({ amount: 10 }, { key: "payment:1", onRunning: "wait" })));
    expect(new Set(results.map((result) => JSON.stringify(result))).size).toBe(1);
    expect(body).toHaveBeenCalledTimes(1);
    expect(await store.get("payment:1")).toMatchObject({ status: "completed" });
    await (await store.ledger()).close();
  }
});
