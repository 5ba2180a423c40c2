import { writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { poll } from "../../kit/poll.js";
import { START_BOUND_MS } from "../process/command.js";
import { startGuard } from "../process/guard.js";
import type { Found } from "../provider.js";
import { urlOf } from "./cluster.js";
import { ask, type RedisProcess, startRedisProcess } from "./server.js";

export interface RedisPair {
  readonly master: RedisProcess;
  readonly replica: RedisProcess;
  readonly sentinels: readonly RedisProcess[];
  /** Leads to the master through the sentinels. */
  readonly url: string;
  stop(): Promise<void>;
}

/** A master, its replica, and sentinels that monitor them. */
export async function startRedisPair(found: Found, { sentinels }: { readonly sentinels: number }): Promise<RedisPair> {
  const guard = await startGuard(join(tmpdir(), "onceflow-redis-pair-"), "SIGKILL");
  const durable = { appendonly: "yes", appendfsync: "always", "repl-diskless-sync-delay": "0" };
  try {
    const master = await startRedisProcess(found, guard, durable);
    const replica = await startRedisProcess(found, guard, { ...durable, replicaof: `127.0.0.1 ${master.port}` });
    await replicates(master);
    const watchers: RedisProcess[] = [];
    for (let i = 0; i < sentinels; i++) {
      const file = join(guard.folder, `sentinel-${i}.conf`);
      await writeFile(file, sentinelSettings(master.port, Math.floor(sentinels / 2) + 1));
      watchers.push(await startRedisProcess(found, guard, { sentinel: file }));
    }
    for (const watcher of watchers) await knowsOthers(watcher, sentinels);
    return {
      master,
      replica,
      sentinels: watchers,
      url: `redis+sentinel://${watchers.map(({ port }) => `127.0.0.1:${port}`).join(",")}/main`,
      stop: async () => {
        await Promise.all([...watchers, replica, master].map((each) => each.end()));
        await guard.release();
      },
    };
  } catch (error) {
    await guard.release();
    throw error;
  }
}

function sentinelSettings(port: number, quorum: number): string {
  return [
    "bind 127.0.0.1",
    `sentinel monitor main 127.0.0.1 ${port} ${quorum}`,
    "sentinel down-after-milliseconds main 500",
    "sentinel failover-timeout main 3000",
    "",
  ].join("\n");
}

/** Waits until the replica has received the master's data and follows it. */
export async function replicates(master: RedisProcess): Promise<void> {
  await poll(
    START_BOUND_MS,
    async () => /slave0:.*state=online/.test(String(await ask(urlOf(master), "INFO", "replication"))) || undefined,
    () => `no replica was online within ${START_BOUND_MS} ms`,
  );
}

async function knowsOthers(sentinel: RedisProcess, sentinels: number): Promise<void> {
  await poll(
    START_BOUND_MS,
    async () => {
      const info = String(await ask(urlOf(sentinel), "INFO", "sentinel"));
      return info.includes(`status=ok`) && info.includes(`slaves=1,sentinels=${sentinels}`) ? true : undefined;
    },
    () => `a sentinel did not find the others within ${START_BOUND_MS} ms`,
  );
}
