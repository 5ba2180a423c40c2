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
 * Writes, and then asks the servers (WAIT, on the same connections) how many replicas have the write. If too few have it, only the
 * master has it and a failover could lose it, so the write fails with NotKnownError. Sent again, it finds its own success and waits
 * again.
 *
 * Servers that were masters before the write are asked too. If only the masters after the write were asked, a master that took the
 * write and was replaced at once would be missed, and the write could be lost unnoticed.
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
  const why = typeof doubt === "string" ? doubt : "the replicas could not be queried about the write";
  const error = new NotKnownError(`[onceflow] [redis] ${why}; a failover may lose it`, doubt);
  return verdicts.map((verdict) => (verdict instanceof Error ? verdict : error));
}
