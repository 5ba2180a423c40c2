import { InvalidInputError } from "../../core/errors/errors.js";
import type { Backend } from "../../core/store/store.js";
import { startStandIn } from "../heartbeat/heartbeat-thread.js";
import { redisBackend } from "./backend.js";
import { connect } from "./connection/connect.js";
import { Connection } from "./connection/connection.js";
import { type Driver, loadDriver } from "./driver.js";
import { parseAddress } from "./url.js";

export interface RedisOptions {
  readonly url: string;
  readonly stallMsMax?: number;
  /** Off in the stand-in's thread: what is to be said was said when the store was opened. */
  readonly check?: boolean;
  readonly driver?: Driver;
}

/** One connection for everything, to a server or to each member of a Cluster. */
export async function openRedis({ url, stallMsMax, check = true, driver }: RedisOptions): Promise<Backend> {
  const address = parseAddress(url);
  const { prefix, strict, waitReplicas, waitMs } = address.options;
  const using = driver ?? (await loadDriver());
  const connection = new Connection({ connect: () => connect(using, address) });
  return await redisBackend(connection, {
    check,
    ...(prefix === undefined ? {} : { prefix }),
    ...(strict === undefined ? {} : { strict: booleanOf("strict", strict) }),
    ...(waitReplicas === undefined
      ? {}
      : { waitReplicas: { count: numberOf("waitReplicas", waitReplicas), timeoutMs: numberOf("waitMs", waitMs ?? "1000") } }),
    standIn: () => startStandIn({ kind: "redis", url }, stallMsMax),
  });
}

function booleanOf(name: string, text: string): boolean {
  if (text !== "true" && text !== "false") throw new InvalidInputError("url", `${name} is true or false`);
  return text === "true";
}

function numberOf(name: string, text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidInputError("url", `${name} is a whole number`);
  return Number(text);
}
