import type pg from "pg";
import { ConfigurationError, StoreRefusedError, UnreachableError } from "../../../core/errors/errors.js";
import type { Answer, Settle } from "../../../core/ledger/operation.js";
import type { Tx } from "../../../core/store/store.js";
import type { PgClient } from "../driver.js";
import { fullFlush } from "../ledger/flush.js";
import { fullStatement } from "../ledger/full-statement.js";

const triesMax = 10;

const caughtInside =
  "[onceflow] [postgres] the transaction was rolled back, because one of its statements failed: do not catch that error inside of it, or use a savepoint";

/** A transaction of the store's own: BEGIN, the handler's work, COMMIT. */
export async function transact<T>(pool: pg.Pool, work: (tx: Tx) => Promise<T>): Promise<T> {
  const client = await pool.connect().catch((error: unknown) => {
    throw new UnreachableError("[onceflow] [postgres] no connection for a transaction", error);
  });
  let broken: Error | undefined;
  const onError = (error: Error) => {
    broken = error;
  };
  client.on("error", onError);
  try {
    await client.query("BEGIN");
    const result = await work(client);
    const { command } = await client.query("COMMIT");
    // PostgreSQL answers COMMIT with a rollback, and without an error, when a statement has failed and its error was caught.
    if (command === "ROLLBACK") throw new StoreRefusedError(caughtInside);
    return result;
  } catch (error) {
    // When even this fails the connection is broken, and the server rolls back by itself.
    await client.query("ROLLBACK").catch((failure: Error) => {
      broken = failure;
    });
    broken ??= await becameReadOnly(client);
    throw error;
  } finally {
    client.off("error", onError);
    client.release(broken);
  }
}

/** The server of this connection takes no writes any more, after a failover say: the next transaction needs another connection. */
async function becameReadOnly(client: PgClient): Promise<Error | undefined> {
  try {
    const { rows } = await client.query<{ transaction_read_only: string }>("SHOW transaction_read_only");
    return rows[0]?.transaction_read_only === "on" ? new Error("the server became read-only") : undefined;
  } catch (error) {
    return error as Error;
  }
}

/** The settle as the last statement of a transaction, ours or the user's own. */
export async function settleWithin(tx: Tx, schema: string, settle: Settle): Promise<Answer> {
  // "again": our own heartbeat has renewed the record between its reading and its lock. A new statement sees that.
  for (let tries = 0; tries < triesMax; tries++) {
    // Not prepared: the connection is not ours, and may be another one at every transaction.
    const [verdict] = await fullFlush(asClient(tx), { text: fullStatement(schema) }, [settle]);
    if (verdict !== undefined && verdict !== "again") return verdict.answer;
  }
  return { kind: "stale", record: undefined };
}

export function asClient(tx: Tx): PgClient {
  if (!("query" in tx) || typeof tx.query !== "function")
    throw new ConfigurationError("[onceflow] [postgres] tx must hand over a client with query(), inside an open transaction", {
      code: "MISSING_CAPABILITY",
    });
  return tx as PgClient;
}
