import { UnreachableError } from "../../core/errors.js";
import type { RedisAddress } from "./address.js";
import type { Driver, Login } from "./driver.js";
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
      return await driver.one(first as RedisAddress["hosts"][number], login);
  }
}

/**
 * Asks one sentinel after the other who is the master, and that one whether it is: a sentinel may not know yet. Asked
 * again at every new connection, so a failover is found when the old master is lost, or refuses to be written to.
 */
async function connectToMaster(driver: Driver, { hosts, master, tls }: RedisAddress, login: Login): Promise<RedisLink> {
  const said: string[] = [];
  for (const sentinel of hosts) {
    try {
      // Sentinels have no databases, and their passwords are their own: they are asked without one.
      const asked = await driver.one(sentinel, { tls, username: undefined, password: undefined, database: 0, name: login.name });
      const found = (await asked.send(["SENTINEL", "GET-MASTER-ADDR-BY-NAME", master], "").finally(() => asked.destroy())) as
        | string[]
        | null;
      if (found === null) throw new Error(`it knows no master "${master}"`);
      const [host = "", port] = found;
      const link = await driver.one({ host, port: Number(port) }, login);
      const role = (await link.send(["ROLE"], "")) as unknown[];
      if (role[0] === "master") return link;
      link.destroy();
      throw new Error(`the master that it names is a ${String(role[0])}`);
    } catch (error) {
      said.push(`${sentinel.host}:${sentinel.port}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  throw new UnreachableError(`[onceflow] [redis] no sentinel led to a master: ${said.join("; ")}`);
}
