import type { Found, Provider, Server } from "../provider.js";
import { installDebianPackage } from "../sources/debian.js";
import { programOnPath } from "../sources/on-path.js";
import { ask, startRedis } from "./server.js";

export const redis: Provider<Server> = {
  title: "Redis",
  env: { given: "ONCEFLOW_TEST_REDIS_URL", from: "ONCEFLOW_TEST_REDIS_FROM" },
  unsupported: () => (process.platform === "win32" ? "there is no Redis for Windows" : undefined),
  given: serverAt,
  sources: [
    { name: "machine", seek: onThisMachine },
    { name: "debian", seek: fromDebian },
  ],
  start: startRedis,
};

/** The program itself, for tests that need several servers. */
export async function redisProgram(): Promise<Found> {
  return await onThisMachine().catch(fromDebian);
}

/** A server that was given by its URL: the tests may use it, but neither stop nor kill it. */
async function serverAt(url: string): Promise<Server> {
  await ask(url, "PING");
  return { from: "ONCEFLOW_TEST_REDIS_URL", url, stop: async () => {} };
}

async function onThisMachine(): Promise<Found> {
  return { from: "this machine", path: programOnPath("redis-server") };
}

async function fromDebian(): Promise<Found> {
  await installDebianPackage("redis-server");
  return { ...(await onThisMachine()), from: "the Debian package redis-server" };
}
