import { setTimeout as delay } from "node:timers/promises";
import { UnreachableError } from "../../../core/errors/errors.js";
import { asking } from "../connection/ask.js";
import type { MongoClient, SessionOption } from "../driver.js";
import { codeOf, explain, hasLabel } from "../errors.js";
import { transact } from "../transactions/transact.js";

const triesMax = 5;
const waitMsMax = 20;

/**
 * Runs `work` in a transaction. MongoDB aborts a transaction that writes a document which another one has written since, and nothing of
 * it is applied: it is retried here a few times, and then with the next flush.
 */
export async function inTransaction<T>(
  client: MongoClient,
  what: string,
  work: (options: Required<SessionOption>) => Promise<T>,
): Promise<T | "again"> {
  for (let tries = 0; tries < triesMax; tries++) {
    try {
      return await asking(what, () =>
        transact(client, (tx) => work({ session: tx as Required<SessionOption>["session"] })).catch(explainFailure),
      );
    } catch (error) {
      if (!(error instanceof Conflict)) throw error;
      // A random delay, so that the same two transactions do not conflict again.
      await delay(1 + Math.random() * waitMsMax);
    }
  }
  return "again";
}

class Conflict extends Error {}

/** Converts an error of a transaction. If the connection was lost before the commit was sent, nothing was written. */
function explainFailure(error: unknown): never {
  if (hasLabel(error, "UnknownTransactionCommitResult") || !hasLabel(error, "TransientTransactionError")) throw error;
  if (codeOf(error) !== 0) throw new Conflict("a write conflict", { cause: error });
  const meaning = explain(error, "a transaction");
  throw new UnreachableError("[onceflow] [mongodb] the connection was lost inside a transaction, which was not committed", meaning);
}
