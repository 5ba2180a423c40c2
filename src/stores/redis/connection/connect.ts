import { UnreachableError } from "../../../core/errors/errors.js";
import type { Driver, Login } from "../driver.js";
import type { Host, RedisAddress } from "../url.js";
import type { RedisLink } from "./link.js";

/** A new link to whoever is to be written to now. */
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
 * Asks all sentinels at once who is the master, and that one whether it is: a sentinel may be down, or not know yet.
 * Asked again at every new connection, so a failover is found when the old master is lost, or refuses to be written to.
 */
async function connectToMaster(driver: Driver, { hosts, master, tls }: RedisAddress, login: Login): Promise<RedisLink> {
  // Sentinels have no databases, and their passwords are their own: they are asked without one.
  const asking: Login = { tls, username: undefined, password: undefined, database: 0, name: login.name };
  const leads = hosts.map(async (sentinel) => {
    const asked = await driver.one(sentinel, asking);
    const found = await asked.send(["SENTINEL", "GET-MASTER-ADDR-BY-NAME", master], "").finally(() => asked.destroy());
    if (!Array.isArray(found)) throw new Error(`it knows no master "${master}"`);
    return await masterAt(driver, { host: String(found[0]), port: Number(found[1]) }, login);
  });
  const first = await Promise.any(leads).catch((error: AggregateError) => {
    const said = hosts.map(({ host, port }, i) => `${host}:${port}: ${String((error.errors[i] as Error).message)}`);
    throw new UnreachableError(`[onceflow] [redis] no sentinel led to a master: ${said.join("; ")}`, error);
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
    if (role !== "master") throw new Error(`the master that it names is a ${String(role)}`);
    return link;
  } catch (error) {
    link.destroy();
    throw error;
  }
}
