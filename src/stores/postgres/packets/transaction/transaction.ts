import { LoadedTable, Missing } from "../../../shared/loaded-packet-table.js";
import { Wishes } from "../../../shared/packet-wishes.js";
import { beginOurs } from "../../connection/session.js";
import type { PgClient } from "../../driver.js";
import { codeOf } from "../../errors.js";
import type { PacketConnection } from "../ask.js";
import { type Locked, type LockMode, lock } from "./lock.js";
import { read } from "./read.js";
import { Overtaken, write } from "./write.js";

/** Each retry also locks rows that the previous try found missing, such as lanes and executions of packets that a key holds. */
const triesMax = 6;

/** Serialization failure, deadlock or duplicate key: nothing was changed, and a retry can succeed. */
const lostRace = /^(40001|40P01|23505)$/;
export const waitedTooLong = "55P03";

/**
 * Inside an open transaction: locks and reads rows, applies the rules, and writes the changes. Three round trips for any number of
 * rows.
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

/** Runs `work` in a transaction. Undefined if it lost every race and changed nothing. `extra`: rows that earlier tries found missing. */
export async function inTransaction<T>(client: PgClient, waitMsMax: number, work: (extra: Wishes) => Promise<T>): Promise<T | undefined> {
  const extra = new Wishes();
  for (let tries = 1; tries <= triesMax; tries++) {
    await client.query(`${beginOurs}; SET LOCAL lock_timeout = ${waitMsMax}`);
    try {
      const result = await work(extra);
      await client.query("COMMIT");
      return result;
    } catch (error) {
      // If the rollback fails, its error is thrown: the connection is broken.
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
