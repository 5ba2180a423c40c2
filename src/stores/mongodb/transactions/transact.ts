import { setTimeout as delay } from "node:timers/promises";
import type { ClientSession, TransactionOptions } from "mongodb";
import { assert, ConfigurationError } from "../../../core/errors/errors.js";
import type { Answer, Settle } from "../../../core/ledger/operation.js";
import type { Tx } from "../../../core/store/store.js";
import type { MongoClient } from "../driver.js";
import { hasLabel } from "../errors.js";
import type { Collections } from "../layout.js";
import { apply } from "../ledger/flush.js";

/** A commit is answered when a majority has it on disk. */
const transactionOptions: TransactionOptions = {
  readConcern: { level: "snapshot" },
  writeConcern: { w: "majority", journal: true },
  readPreference: "primary",
};

/**
 * Runs `work` in a transaction, once. MongoDB aborts it if another transaction has written the same documents (TransientTransactionError).
 * It is not retried here: the handler may have had effects elsewhere.
 */
export async function transact<T>(client: MongoClient, work: (tx: Tx) => Promise<T>): Promise<T> {
  const session = client.startSession();
  try {
    session.startTransaction(transactionOptions);
    const result = await work(session);
    await commit(session);
    return result;
  } catch (error) {
    // If this fails too, the server aborts the transaction after a minute.
    if (session.inTransaction()) await session.abortTransaction().catch(() => {});
    throw error;
  } finally {
    await session.endSession().catch(() => {});
  }
}

const commitMsMax = 10_000;
const commitPauseMs = 50;

/**
 * Sends a commit that was not answered again: the server knows whether it was applied. Otherwise a transaction that was not
 * committed would lock its documents for a minute.
 */
async function commit(session: ClientSession): Promise<void> {
  const startedAt = performance.now();
  for (;;) {
    try {
      return await session.commitTransaction();
    } catch (error) {
      const lost = hasLabel(error, "UnknownTransactionCommitResult");
      if (!lost || performance.now() - startedAt > commitMsMax) throw error;
      await delay(commitPauseMs);
    }
  }
}

/**
 * Settles as the last write of a transaction of the store or the user. Errors keep their labels, which the code that opened the
 * transaction needs.
 */
export async function settleWithin(collections: Collections, tx: Tx, settle: Settle): Promise<Answer> {
  const session = asSession(tx);
  const verdict = await apply(collections.by(clientOf(session)), settle, { session });
  return verdict === "again" ? { kind: "stale", record: undefined } : verdict.answer;
}

export function asSession(tx: Tx): ClientSession {
  if (!("inTransaction" in tx) || typeof tx.inTransaction !== "function" || tx.inTransaction() !== true)
    throw new ConfigurationError("[onceflow] [mongodb] tx must pass a ClientSession with an open transaction", {
      code: "MISSING_CAPABILITY",
    });
  return tx as ClientSession;
}

/** The client of a session. The driver accepts a session only on its own client. Its types do not declare this member. */
export function clientOf(session: ClientSession): MongoClient {
  const { client } = session as ClientSession & { readonly client?: MongoClient };
  assert(client !== undefined, "a session of the driver has its client");
  return client;
}
