import type pg from "pg";
import { ConfigurationError, StoreRefusedError, UnreachableError } from "../../../core/errors/errors.js";
import type { Answer, Settle } from "../../../core/ledger/operation.js";
import type { Tx } from "../../../core/store/store.js";
import type { PgClient } from "../driver.js";
import { fullFlush } from "../ledger/flush.js";
import { fullStatement } from "../ledger/full-statement.js";

const triesMax = 10;

const caughtInside =
  "[onceflow] [postgres] the transaction was rolled back, because one of its statements failed: do not catch that error inside the transaction, or use a savepoint";

/** Runs `work` in a transaction: BEGIN, the handler's statements, COMMIT. */
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
    // If a statement failed and the handler caught its error, PostgreSQL answers COMMIT with ROLLBACK, without an error.
    if (command === "ROLLBACK") throw new StoreRefusedError(caughtInside);
    return result;
  } catch (error) {
    // If this fails too, the connection is broken, and the server rolls back by itself.
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

/** Returns an error if the server became read-only, for example after a failover: the next transaction needs another connection. */
async function becameReadOnly(client: PgClient): Promise<Error | undefined> {
  try {
    const { rows } = await client.query<{ transaction_read_only: string }>("SHOW transaction_read_only");
    return rows[0]?.transaction_read_only === "on" ? new Error("the server became read-only") : undefined;
  } catch (error) {
    return error as Error;
  }
}

/** Settles as the last statement of a transaction, opened by the store or by the user. */
export async function settleWithin(tx: Tx, schema: string, settle: Settle): Promise<Answer> {
  // "again": a renewal by this process changed the record between reading and locking. A new statement sees that.
  for (let tries = 0; tries < triesMax; tries++) {
    // Not prepared: the connection belongs to the caller, and may differ for every transaction.
    const [verdict] = await fullFlush(asClient(tx), { text: fullStatement(schema) }, [settle]);
    if (verdict !== undefined && verdict !== "again") return verdict.answer;
  }
  return { kind: "stale", record: undefined };
}

export function asClient(tx: Tx): PgClient {
  if (!("query" in tx) || typeof tx.query !== "function")
    throw new ConfigurationError("[onceflow] [postgres] tx must pass a client with query() and an open transaction", {
      code: "MISSING_CAPABILITY",
    });
  return tx as PgClient;
}
