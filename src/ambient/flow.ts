import { createStore } from "../core/store/create-store.js";
import { Flow, type FlowConfig } from "../flow/flow.js";
import { LedgerIdempotencyStore } from "../flow/idempotency-store.js";
import type { DynamoStoreOptions } from "../stores/dynamodb/index.js";
import type { DynamoClient } from "../stores/dynamodb/options.js";
import { createMemoryLedger, memoryBackend } from "../stores/memory/backend.js";
import type { RedisClient } from "../stores/redis/connection/link.js";
import type { RedisStoreOptions } from "../stores/redis/index.js";
import { ambientStore } from "./ambient.js";

/**
 * Creates a flow without steps; add them with `step` and `parallel`. Throws InvalidInputError if the name or the
 * configuration is invalid.
 *
 * @example
 * const payment = create<Order>("payment", { idempotency: createIdempotencyStore() })
 *   .step("charge", async (ctx) => ctx.set("charge", await charge(ctx.input, { idempotencyKey: ctx.stepKey })))
 *   .step("ship", ship);
 */
export function create<Input = unknown>(name: string, config: FlowConfig<Input> = {}): Flow<Input> {
  return new Flow<Input>(name, config, ambientStore);
}

/** Creates a store in the memory of this process: for tests, and for apps with a single process. */
export function createIdempotencyStore(): LedgerIdempotencyStore {
  const store = createStore(memoryBackend(createMemoryLedger()));
  return new LedgerIdempotencyStore(async () => store);
}

/**
 * Creates a store that keeps keys in Redis. `client` is a connected client of node-redis or ioredis; the caller closes it.
 *
 * @example
 * const payment = create("payment", { idempotency: redisIdempotencyStore(await createClient().connect()) });
 */
export function redisIdempotencyStore(client: RedisClient, options: Omit<RedisStoreOptions, "client"> = {}): LedgerIdempotencyStore {
  return new LedgerIdempotencyStore(async () => (await import("../stores/redis/index.js")).redisStore({ client, ...options }));
}

/** Options of {@link dynamoIdempotencyStore}. */
export interface DynamoIdempotencyOptions extends Omit<DynamoStoreOptions, "client" | "table"> {
  readonly tableName: string;
}

/**
 * Creates a store that keeps keys in a DynamoDB table. `client` is a client of the AWS SDK; the caller destroys it.
 *
 * @example
 * const idempotency = dynamoIdempotencyStore(new DynamoDBClient({}), { tableName: "onceflow" });
 */
export function dynamoIdempotencyStore(client: DynamoClient, options: DynamoIdempotencyOptions): LedgerIdempotencyStore {
  const { tableName: table, ...rest } = options;
  return new LedgerIdempotencyStore(async () => (await import("../stores/dynamodb/index.js")).dynamoStore({ client, table, ...rest }));
}
