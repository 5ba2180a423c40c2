import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { installDebianPackage } from "./debian.js";
import type { Found, Provider, Server } from "./provider.js";
import { ask, startRedis } from "./redis-server.js";

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

/** The program itself, for those who need several servers. */
export async function redisProgram(): Promise<Found> {
  return await onThisMachine().catch(fromDebian);
}

/** A server that somebody else runs: the tests may use it, and neither stop nor kill it. */
async function serverAt(url: string): Promise<Server> {
  await ask(url, "PING");
  return { from: "ONCEFLOW_TEST_REDIS_URL", url, stop: async () => {} };
}

async function onThisMachine(): Promise<Found> {
  const folders = ["/usr/bin", "/usr/local/bin", ...(process.env.PATH ?? "").split(delimiter)];
  const folder = folders.find((one) => one && existsSync(join(one, "redis-server")));
  if (folder === undefined) throw new Error("no folder of PATH has redis-server");
  return { from: "this machine", path: join(folder, "redis-server") };
}

async function fromDebian(): Promise<Found> {
  await installDebianPackage("redis-server");
  return { ...(await onThisMachine()), from: "the Debian package redis-server" };
}
