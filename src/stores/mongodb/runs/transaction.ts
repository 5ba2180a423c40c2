import { setTimeout as delay } from "node:timers/promises";
import { UnreachableError } from "../../../core/errors/errors.js";
import { asking } from "../connection/ask.js";
import type { MongoClient, SessionOption } from "../driver.js";
import { codeOf, explain, hasLabel } from "../errors.js";
import { transact } from "../transactions/transact.js";

const triesMax = 5;
const waitMsMax = 20;

/**
 * Several documents, all of them or none. Whoever writes a document that another transaction has written since is ended
 * by MongoDB, and has changed nothing: it is tried again here a few times, and then with the next flush.
 */
export async function inTransaction<T>(
  client: MongoClient,
  what: string,
  work: (options: Required<SessionOption>) => Promise<T>,
): Promise<T | "again"> {
  for (let tries = 0; tries < triesMax; tries++) {
    try {
      return await asking(what, () => transact(client, (tx) => work({ session: tx as Required<SessionOption>["session"] })).catch(told));
    } catch (error) {
      if (!(error instanceof Conflict)) throw error;
      // At random, so that the same two do not meet again.
      await delay(1 + Math.random() * waitMsMax);
    }
  }
  return "again";
}

class Conflict extends Error {}

/** Before the commit was sent nothing can have been written, however the connection was lost. */
function told(error: unknown): never {
  if (hasLabel(error, "UnknownTransactionCommitResult") || !hasLabel(error, "TransientTransactionError")) throw error;
  if (codeOf(error) !== 0) throw new Conflict("a write conflict", { cause: error });
  const meaning = explain(error, "a transaction");
  throw new UnreachableError("[onceflow] [mongodb] the connection was lost inside a transaction, which was not committed", meaning);
}
