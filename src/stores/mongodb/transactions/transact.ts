import { setTimeout as delay } from "node:timers/promises";
import type { ClientSession, TransactionOptions } from "mongodb";
import { assert, ConfigurationError } from "../../../core/errors/errors.js";
import type { Answer, Settle } from "../../../core/ledger/operation.js";
import type { Tx } from "../../../core/store/store.js";
import type { MongoClient } from "../driver.js";
import { hasLabel } from "../errors.js";
import type { Collections } from "../layout.js";
import { apply } from "../ledger/flush.js";

/** Durable when it is told: a majority has it, on disk. */
const transactionOptions: TransactionOptions = {
  readConcern: { level: "snapshot" },
  writeConcern: { w: "majority", journal: true },
  readPreference: "primary",
};

/**
 * A transaction of the store's own: one try. MongoDB ends it when somebody else has written what it writes
 * (TransientTransactionError); the handler's own effects elsewhere are no reason to run it again behind its back.
 */
export async function transact<T>(client: MongoClient, work: (tx: Tx) => Promise<T>): Promise<T> {
  const session = client.startSession();
  try {
    session.startTransaction(transactionOptions);
    const result = await work(session);
    await commit(session);
    return result;
  } catch (error) {
    // When even this fails the server ends the transaction by itself, after a minute.
    if (session.inTransaction()) await session.abortTransaction().catch(() => {});
    throw error;
  } finally {
    await session.endSession().catch(() => {});
  }
}

const commitMsMax = 10_000;
const commitPauseMs = 50;

/**
 * A commit that was not answered is sent again: the server knows whether it was done. Left alone, a transaction that
 * was not committed would hold its documents for a minute.
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

/** The settle as the last write of a transaction, ours or the user's own. Errors keep their labels: who opened it needs them. */
export async function settleWithin(collections: Collections, tx: Tx, settle: Settle): Promise<Answer> {
  const session = asSession(tx);
  const verdict = await apply(collections.by(clientOf(session)), settle, { session });
  return verdict === "again" ? { kind: "stale", record: undefined } : verdict.answer;
}

export function asSession(tx: Tx): ClientSession {
  if (!("inTransaction" in tx) || typeof tx.inTransaction !== "function" || tx.inTransaction() !== true)
    throw new ConfigurationError("[onceflow] [mongodb] tx must hand over a ClientSession, inside an open transaction", {
      code: "MISSING_CAPABILITY",
    });
  return tx as ClientSession;
}

/** Every session knows its client, and the driver refuses a session at another one; its types do not say so. */
export function clientOf(session: ClientSession): MongoClient {
  const { client } = session as ClientSession & { readonly client?: MongoClient };
  assert(client !== undefined, "a session of the driver has its client");
  return client;
}
