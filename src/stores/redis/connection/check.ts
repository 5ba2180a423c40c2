import { ConfigurationError } from "../../../core/errors/errors.js";
import { type Layout, layoutVersion } from "../layout.js";
import type { Connection } from "./connection.js";
import type { RedisLink, RedisServer } from "./link.js";
import { checkPermissions } from "./permissions.js";

interface CheckOptions {
  readonly strict: boolean;
  /** Number of replicas that every write waits for. */
  readonly waitsFor: number;
}

interface Finding {
  readonly code: string;
  readonly problem: string;
}

/** Checks the configuration of the servers when a store is opened: warns, or throws with `strict`, if acknowledged writes can be lost. */
export async function checkServers(connection: Connection, layout: Layout, options: CheckOptions): Promise<void> {
  const link = await connection.link();
  const findings = await connection.answer(link, "opening the store", findingsOf(link, options));
  if (findings.length > 0 && options.strict) {
    const problems = findings.map(({ problem }) => problem).join("; ");
    throw new ConfigurationError(`[onceflow] [redis] strict: ${problems}`, { code: "REDIS_WEAK" });
  }
  await connection.answer(link, "opening the store", checkPermissions(link, layout, { waits: options.waitsFor > 0 }));
  await connection.answer(link, "opening the store", checkLayout(link, layout));
  for (const { code, problem } of findings) process.emitWarning(`[onceflow] [redis] ${problem}`, { type: "OnceflowWarning", code });
}

/** Throws for data of a newer layout: two versions with different layouts would each run operations that the other has completed. */
async function checkLayout(link: RedisLink, { version: key }: Layout): Promise<void> {
  await link.send(["SET", key, String(layoutVersion), "NX"], key);
  const found = Number(await link.send(["GET", key], key));
  if (found === layoutVersion) return;
  throw new ConfigurationError(
    `[onceflow] [redis] the data under this prefix has layout ${found}, but this version of onceflow supports layout ${layoutVersion}: update onceflow before opening it`,
    { code: "SCHEMA_NEWER" },
  );
}

async function findingsOf(link: RedisLink, options: CheckOptions): Promise<Finding[]> {
  const servers = await link.servers("all");
  const all = (await Promise.all(servers.map((server) => checkServer(server, options)))).flat();
  return [...new Map(all.map((finding) => [finding.problem, finding])).values()];
}

async function checkServer(server: RedisServer, { waitsFor }: CheckOptions): Promise<Finding[]> {
  const [info, fsync, minReplicas] = await Promise.all([
    server.send(["INFO"]).then(membersOf, unlessForbidden),
    settingOf(server, "appendfsync"),
    settingOf(server, "min-replicas-to-write"),
  ]);
  if (info !== undefined) refuseUnusable(info);
  const findings: Finding[] = [];
  const find = (code: string, problem: string) => void findings.push({ code, problem });

  const unchecked = [...(info === undefined ? ["INFO"] : []), ...(fsync === undefined || minReplicas === undefined ? ["CONFIG GET"] : [])];
  if (unchecked.length > 0)
    find(
      "ONCEFLOW_REDIS_UNCHECKED",
      `${unchecked.join(" and ")} may not be called here: whether the server keeps acknowledged writes could not be checked`,
    );

  const policy = info?.get("maxmemory_policy");
  if (policy?.startsWith("allkeys"))
    find("ONCEFLOW_REDIS_EVICTION", `maxmemory-policy is ${policy}: an operation whose key is evicted runs again. Set noeviction`);

  if (info?.get("aof_enabled") === "0")
    find(
      "ONCEFLOW_REDIS_FSYNC",
      "appendonly is off: a restart loses outcomes, and their operations run again. Set appendonly yes and appendfsync always",
    );
  else if (fsync !== undefined && fsync !== "always")
    find(
      "ONCEFLOW_REDIS_FSYNC",
      `appendfsync is ${fsync}: a crash of the machine loses the last outcomes, and their operations run again. Set appendfsync always`,
    );

  const replicas = Number(info?.get("connected_slaves") ?? 0);
  if (replicas > 0 && waitsFor === 0 && (minReplicas === undefined || minReplicas === "0"))
    find(
      "ONCEFLOW_REDIS_REPLICAS",
      "the server has replicas, but writes do not wait for them: a failover loses writes that they have not received. Set min-replicas-to-write, and open the store with waitReplicas",
    );
  return findings;
}

function refuseUnusable(info: ReadonlyMap<string, string>): void {
  const version = info.get("redis_version") ?? "";
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (major < 6 || (major === 6 && minor < 2))
    throw new ConfigurationError(`[onceflow] [redis] version ${version} is too old: 6.2 or newer is needed`, { code: "REDIS_VERSION" });
  if (info.get("role") === "slave")
    throw new ConfigurationError("[onceflow] [redis] this server is a read-only replica: open its master, or redis+sentinel://", {
      code: "REDIS_REPLICA",
    });
}

async function settingOf(server: RedisServer, name: string): Promise<string | undefined> {
  const reply = await server.send(["CONFIG", "GET", name]).catch(unlessForbidden);
  if (reply === undefined) return undefined;
  // A list of names and values, or a map, depending on the protocol version.
  if (Array.isArray(reply)) return reply[1] as string | undefined;
  return (reply instanceof Map ? reply.get(name) : (reply as Record<string, string>)[name]) as string | undefined;
}

/** Managed services often do not have these commands, or do not allow them. */
function unlessForbidden(error: unknown): undefined {
  if (error instanceof Error && /^(NOPERM|ERR unknown command)/.test(error.message)) return undefined;
  throw error;
}

function membersOf(info: unknown): ReadonlyMap<string, string> {
  const lines = String(info).split(/\r?\n/);
  return new Map(
    lines
      .filter((line) => line.includes(":"))
      .map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1)] as const),
  );
}
