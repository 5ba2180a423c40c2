import { randomUUID } from "node:crypto";
import { createClient } from "redis";
import { inject } from "vitest";
import { acquire, type ProviderName } from "../../servers/acquire.js";
import type { Acquired } from "../../servers/acquire-from.js";
import { clientOf, queueNamed } from "../../servers/brokers/sqs-queues.js";
import { freshTable } from "../../servers/dynamodb/tables.js";
import { freshMongoDatabase } from "../../servers/mongodb/databases.js";
import { freshDatabase } from "../../servers/postgres/databases.js";
import type { Server } from "../../servers/provider.js";
import { codeOf } from "./pages.js";
import type { Sample } from "./samples.js";

/** Environment variables from which samples read the address of a server, and how each sample gets its own database there. */
const addresses = {
  DATABASE_URL: { server: inject("postgres"), fresh: freshDatabase },
  MONGODB_URL: { server: inject("mongodb"), fresh: freshMongoDatabase },
  REDIS_URL: { server: inject("redis"), fresh: emptyRedis },
  DYNAMODB_URL: { server: inject("dynamodb"), fresh: freshTables, usedBy: /DYNAMODB_URL|new DynamoDBClient/ },
  NATS_URL: startedFor("nats"),
  KAFKA_BROKERS: startedFor("kafka"),
  QUEUE_URL: { ...startedFor("sqs"), fresh: freshQueue },
  RABBITMQ_URL: {
    ...startedFor("rabbitmq"),
    without: process.env["ONCEFLOW_TEST_RABBITMQ_URL"]
      ? undefined
      : "its server takes long to start, and test/inbox/rabbitmq.test.ts has one; ONCEFLOW_TEST_RABBITMQ_URL runs it here",
  },
} satisfies Record<string, Addressed>;

interface Addressed {
  server: { readonly ok: true; readonly url: string } | { readonly ok: false; readonly reason: string };
  /** The provider of a server that only some pages need: it is started for them. */
  readonly provider?: ProviderName;
  /** The reason why it is not started. */
  readonly without?: string | undefined;
  /** Code that needs the server; by default, code that names the variable. */
  readonly usedBy?: RegExp;
  fresh(url: string): Promise<{ readonly url: string; readonly env?: NodeJS.ProcessEnv; drop(): Promise<void> }>;
}

function startedFor(provider: ProviderName): Addressed {
  return { server: { ok: false, reason: "not started" }, provider, fresh: async (url) => ({ url, drop: async () => {} }) };
}

/** Starts the server of an address, and returns a function that stops it. */
export async function started(address: Addressed): Promise<() => Promise<void>> {
  if (address.provider === undefined) return async () => {};
  if (address.without !== undefined) {
    address.server = { ok: false, reason: address.without };
    return async () => {};
  }
  const acquired = (await acquire(address.provider)) as Acquired<Server>;
  address.server = acquired.ok ? { ok: true, url: acquired.running.url } : acquired;
  return acquired.ok ? () => acquired.running.stop() : async () => {};
}

/** A database of the Redis server that no other test uses. */
async function emptyRedis(server: string) {
  const url = new URL("/9", server).href;
  const client = await createClient({ url }).connect();
  await client.flushDb();
  client.destroy();
  return { url, drop: async () => {} };
}

/** The URL of a new table, and the environment of a `new DynamoDBClient({})`. */
async function freshTables(server: string) {
  return { ...freshTable(server), env: amazonEnvironment(server, "DYNAMODB") };
}

/** A queue, and the environment of a `new SQS({})`. */
async function freshQueue(server: string) {
  const client = clientOf(server);
  const made = await queueNamed(client, `docs-${randomUUID()}`, {});
  client.destroy();
  const endpoint = new URL(server).searchParams.get("endpoint") ?? undefined;
  // The emulator returns a URL with a host name that does not resolve.
  const url = endpoint === undefined ? made : new URL(new URL(made).pathname, endpoint).href;
  return { url, env: amazonEnvironment(server, "SQS"), drop: async () => {} };
}

function amazonEnvironment(server: string, service: "SQS" | "DYNAMODB"): NodeJS.ProcessEnv {
  const { hostname: AWS_REGION, username, password, searchParams } = new URL(server);
  const endpoint = searchParams.get("endpoint") ?? undefined;
  return { AWS_REGION, AWS_ACCESS_KEY_ID: username, AWS_SECRET_ACCESS_KEY: password, [`AWS_ENDPOINT_URL_${service}`]: endpoint };
}

export function addressesOf(sample: Sample): [name: string, address: Addressed][] {
  const code = codeOf(sample);
  return Object.entries<Addressed>(addresses).filter(([name, { usedBy }]) => usedBy?.test(code) ?? code.includes(name));
}
