import { urlOf } from "./cluster.js";
import { ask, type RedisProcess } from "./server.js";

export interface SlotMove {
  /** At most ten keys of the slot that the source still has. */
  keysLeft(): Promise<string[]>;
  /** Moves these keys from the source to the target, as an operator's tool does. */
  migrate(...keys: string[]): Promise<void>;
  /** Moves the keys that are left, and makes the target the owner of the slot. */
  finish(): Promise<void>;
}

/** The first shard whose slot belongs to the second of three masters. */
export async function shardOfSecond(member: RedisProcess): Promise<number> {
  const [from, to] = [Math.floor(16384 / 3), Math.floor((2 * 16384) / 3)] as const;
  for (let shard = 0; shard < 64; shard++) {
    const slot = Number(await ask(urlOf(member), "CLUSTER", "KEYSLOT", `onceflow:{${shard}}:names`));
    if (slot >= from && slot < to) return shard;
  }
  throw new Error("the second master has no shard");
}

/** Begins to move the slot of a shard from the second master to the third. The caller decides when which keys move. */
export async function beginSlotMove(shard: number, masters: readonly RedisProcess[]): Promise<SlotMove> {
  const [, source, target] = masters as [RedisProcess, RedisProcess, RedisProcess];
  const send = (server: RedisProcess, ...command: string[]) => ask(urlOf(server), ...command);
  const slot = String(await send(source, "CLUSTER", "KEYSLOT", `onceflow:{${shard}}:names`));
  const [sourceId, targetId] = [String(await send(source, "CLUSTER", "MYID")), String(await send(target, "CLUSTER", "MYID"))];
  const keysLeft = async () => (await send(source, "CLUSTER", "GETKEYSINSLOT", slot, "10")) as string[];
  const migrate = async (...keys: string[]) =>
    void (await send(source, "MIGRATE", "127.0.0.1", String(target.port), "", "0", "5000", "KEYS", ...keys));
  await send(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", sourceId);
  await send(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", targetId);
  return {
    keysLeft,
    migrate,
    finish: async () => {
      for (let keys = await keysLeft(); keys.length > 0; keys = await keysLeft()) await migrate(...keys);
      for (const master of [target, ...masters]) await send(master, "CLUSTER", "SETSLOT", slot, "NODE", targetId);
    },
  };
}
