import { tmpdir } from "node:os";
import { join } from "node:path";
import { poll } from "../../kit/poll.js";
import { START_BOUND_MS } from "../process/command.js";
import { freePort } from "../process/free-port.js";
import { startGuard } from "../process/guard.js";
import type { Found } from "../provider.js";
import { ask, type RedisProcess, startRedisProcess } from "./server.js";

export interface RedisCluster {
  readonly url: string;
  /** The first three are masters, and each of the last three is the replica of one of them. */
  readonly members: readonly RedisProcess[];
  stop(): Promise<void>;
}

const slots = 16384;
const masters = 3;

/** Three masters, and a replica for each, in one folder. */
export async function startRedisCluster(found: Found, settings: Readonly<Record<string, string>> = {}): Promise<RedisCluster> {
  const guard = await startGuard(join(tmpdir(), "onceflow-redis-cluster-"), "SIGKILL");
  const cluster = {
    "cluster-enabled": "yes",
    "cluster-node-timeout": "1000",
    appendonly: "yes",
    appendfsync: "always",
    "repl-diskless-sync-delay": "0",
    ...settings,
  };
  try {
    const members: RedisProcess[] = [];
    // One after another: two searches for a free port at the same time may find the same one.
    const buses: number[] = [];
    for (let i = 0; i < 2 * masters; i++) {
      // The default bus port, which is the port plus 10,000, may be above the highest port number.
      const bus = await freePort();
      members.push(await startRedisProcess(found, guard, { ...cluster, "cluster-port": String(bus) }));
      buses.push(bus);
    }
    await formCluster(members, buses);
    return {
      url: `redis+cluster://${members.map(({ port }) => `127.0.0.1:${port}`).join(",")}`,
      members,
      stop: async () => {
        await Promise.all(members.map((member) => member.end()));
        await guard.release();
      },
    };
  } catch (error) {
    await guard.release();
    throw error;
  }
}

async function formCluster(members: readonly RedisProcess[], buses: readonly number[]): Promise<void> {
  const send = (i: number, ...command: string[]) => ask(urlOf(members[i] as RedisProcess), "CLUSTER", ...command);
  for (let i = 0; i < masters; i++) {
    const [from, to] = [i, i + 1].map((part) => Math.floor((part * slots) / masters)) as [number, number];
    await send(i, "ADDSLOTSRANGE", String(from), String(to - 1));
  }
  for (let i = 1; i < members.length; i++) {
    await send(i, "SET-CONFIG-EPOCH", String(i + 1));
    await send(0, "MEET", "127.0.0.1", String(members[i]?.port), String(buses[i]));
  }
  for (let i = masters; i < members.length; i++) {
    const master = String(await send(i - masters, "MYID"));
    await until("a member knows its master", async () => String(await send(i, "NODES")).includes(master));
    await send(i, "REPLICATE", master);
  }
  for (let i = 0; i < members.length; i++) {
    await until("every member reports that the cluster is ok", async () => {
      const isOk = String(await send(i, "INFO")).includes("cluster_state:ok");
      return isOk && String(await send(i, "NODES")).match(/slave [0-9a-f]{40}/g)?.length === masters;
    });
  }
  for (const master of members.slice(0, masters)) {
    await until("every replica has its master's data", async () =>
      /state=online/.test(String(await ask(urlOf(master), "INFO", "replication"))),
    );
  }
}

export function urlOf({ port }: RedisProcess): string {
  return `redis://127.0.0.1:${port}`;
}

async function until(what: string, look: () => Promise<boolean>): Promise<void> {
  await poll(
    START_BOUND_MS,
    async () => (await look().catch(() => false)) || undefined,
    () => `timed out after ${START_BOUND_MS} ms waiting until ${what}`,
  );
}
