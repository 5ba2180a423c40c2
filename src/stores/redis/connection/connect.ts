import { UnreachableError } from "../../../core/errors/errors.js";
import type { Driver, Login } from "../driver.js";
import type { Host, RedisAddress } from "../url.js";
import type { RedisLink } from "./link.js";

/** Opens a link to the server, the Cluster, or the current master. */
export async function connect(driver: Driver, address: RedisAddress): Promise<RedisLink> {
  const login: Login = { ...address, name: address.options["name"] ?? "onceflow" };
  const [first] = address.hosts;
  switch (address.kind) {
    case "cluster":
      return await driver.cluster(address.hosts, login);
    case "sentinel":
      return await connectToMaster(driver, address, login);
    case "single":
      return await driver.one(first as Host, login);
  }
}

/**
 * Asks all sentinels at once for the master, and then checks that server's role: a sentinel may be down, or may not know about a
 * failover yet. This is repeated for every new connection, so a failover is noticed when the old master is lost or refuses writes.
 */
async function connectToMaster(driver: Driver, { hosts, master, tls }: RedisAddress, login: Login): Promise<RedisLink> {
  // Sentinels have no databases and do not share the server's password: connect without one.
  const asking: Login = { tls, username: undefined, password: undefined, database: 0, name: login.name };
  const leads = hosts.map(async (sentinel) => {
    const asked = await driver.one(sentinel, asking);
    const found = await asked.send(["SENTINEL", "GET-MASTER-ADDR-BY-NAME", master], "").finally(() => asked.destroy());
    if (!Array.isArray(found)) throw new Error(`it does not know a master "${master}"`);
    return await masterAt(driver, { host: String(found[0]), port: Number(found[1]) }, login);
  });
  const first = await Promise.any(leads).catch((error: AggregateError) => {
    const problems = hosts.map(({ host, port }, i) => `${host}:${port}: ${String((error.errors[i] as Error).message)}`);
    throw new UnreachableError(`[onceflow] [redis] no sentinel returned a master that can be used: ${problems.join("; ")}`, error);
  });
  for (const lead of leads)
    lead.then(
      (link) => link !== first && link.destroy(),
      () => {},
    );
  return first;
}

async function masterAt(driver: Driver, host: Host, login: Login): Promise<RedisLink> {
  const link = await driver.one(host, login);
  try {
    const [role] = (await link.send(["ROLE"], "")) as unknown[];
    if (role !== "master") throw new Error(`the server that it returned as master has the role ${String(role)}`);
    return link;
  } catch (error) {
    link.destroy();
    throw error;
  }
}
