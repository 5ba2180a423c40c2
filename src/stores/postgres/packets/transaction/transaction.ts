import { beginOurs } from "../../connection/session.js";
import type { PgClient } from "../../driver.js";
import { codeOf } from "../../errors.js";
import type { PacketConnection } from "../ask.js";
import { type Locked, type LockMode, lock } from "./lock.js";
import { read } from "./read.js";
import { LoadedTable, Missing } from "./table.js";
import { Wishes } from "./wishes.js";
import { Overtaken, write } from "./write.js";

/** What is found out on the way is locked too the next time: lanes and executions of packets that are held by a key, say. */
const triesMax = 6;

/** Somebody was faster, or two waited for each other: nothing was changed, and another time it goes through. */
const lostRace = /^(40001|40P01|23505)$/;
export const waitedTooLong = "55P03";

/**
 * Locks and reads what is wished for, lets the verbs work on it, and writes what they changed: three trips, however much it
 * is. In an open transaction.
 */
export async function decideInside<T>(
  connection: PacketConnection,
  { wishes, mode }: { readonly wishes: Wishes; readonly mode: LockMode },
  work: (table: LoadedTable, locked: Locked) => T,
): Promise<T> {
  const locked = await lock(connection, wishes, mode);
  const table = new LoadedTable(await read(connection, wishes), locked, wishes);
  const result = work(table, locked);
  await write(connection, table.changes());
  return result;
}

/** Undefined when it lost every race, and changed nothing. `extra` is what an earlier try found missing. */
export async function inTransaction<T>(client: PgClient, waitMsMax: number, work: (extra: Wishes) => Promise<T>): Promise<T | undefined> {
  const extra = new Wishes();
  for (let tries = 1; tries <= triesMax; tries++) {
    await client.query(`${beginOurs}; SET LOCAL lock_timeout = ${waitMsMax}`);
    try {
      const result = await work(extra);
      await client.query("COMMIT");
      return result;
    } catch (error) {
      // When a rollback fails, its own error counts: the connection is broken, and has to be given up.
      await client.query("ROLLBACK");
      if (!isRace(error)) throw error;
      if (error instanceof Missing) extra.add(error.wishes);
    }
  }
  return undefined;
}

function isRace(error: unknown): boolean {
  return error instanceof Missing || error instanceof Overtaken || lostRace.test(codeOf(error));
}
