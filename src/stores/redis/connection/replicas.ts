import { NotKnownError } from "../../../core/errors/errors.js";
import type { Verdicted } from "../../../core/store/store.js";
import type { Connection } from "./connection.js";
import type { RedisLink } from "./link.js";

export interface WaitReplicas {
  readonly count: number;
  /** 1 to 4000. */
  readonly timeoutMs: number;
}

/**
 * Writes, and asks the servers how many replicas have what was written on these very connections. Too few: it is in the
 * master, and a failover could lose it, so nobody is told that it was done. Sent again it finds itself, and is waited
 * for again.
 *
 * Who was a master before the write is asked as well: were only those asked who are one after it, a master that took the
 * write and was replaced at once would be forgotten, and the write with it.
 */
export async function withReplicas(
  connection: Connection,
  link: RedisLink,
  { count, timeoutMs }: WaitReplicas,
  write: () => Promise<(Verdicted | Error)[]>,
): Promise<(Verdicted | Error)[]> {
  const connected = () => connection.answer(link, "waiting for replicas", link.servers("connected"));
  const before = await connected();
  const verdicts = await write();
  if (verdicts.every((verdict) => verdict instanceof Error)) return verdicts;
  let doubt: unknown;
  try {
    const after = await connected();
    const servers = new Map([...before, ...after].map((server) => [server.client, server]));
    const waits = [...servers.values()].map((server) => server.send(["WAIT", String(count), String(timeoutMs)]));
    const fewest = Math.min(...(await connection.answer(link, "waiting for replicas", Promise.all(waits))).map(Number));
    if (fewest >= count) return verdicts;
    doubt = `${fewest} of ${count} replicas had the write after ${timeoutMs} ms`;
  } catch (error) {
    doubt = error;
  }
  const why = typeof doubt === "string" ? doubt : "the replicas could not be asked about the write";
  const error = new NotKnownError(`[onceflow] [redis] ${why}; whether it would survive a failover is not known`, doubt);
  return verdicts.map((verdict) => (verdict instanceof Error ? verdict : error));
}
