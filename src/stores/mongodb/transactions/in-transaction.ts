import { setTimeout as delay } from "node:timers/promises";
import { UnreachableError } from "../../../core/errors/errors.js";
import { asking } from "../connection/ask.js";
import type { MongoClient, SessionOption } from "../driver.js";
import { codeOf, explain, hasLabel } from "../errors.js";
import { transact } from "./transact.js";

const waitMsMax = 20;

export interface Patience {
  /** Default 5. */
  readonly triesMax?: number;
  /** Tries again for this long, however many tries that takes. */
  readonly forMs?: number;
}

/**
 * Runs `work` in a transaction. MongoDB aborts a transaction that writes a document which another one has written since, and nothing of
 * it is applied: it is retried here a few times, and then with the next flush. `work` gets the number of the try, and may throw `Conflict` for the
 * same effect.
 */
export async function inTransaction<T>(
  client: MongoClient,
  what: string,
  work: (options: Required<SessionOption>, tries: number) => Promise<T>,
  { triesMax = 5, forMs = 0 }: Patience = {},
): Promise<T | "again"> {
  const startedAt = performance.now();
  for (let tries = 1; ; tries++) {
    try {
      return await asking(what, () =>
        transact(client, (tx) => work({ session: tx as Required<SessionOption>["session"] }, tries)).catch(explainFailure),
      );
    } catch (error) {
      if (!(error instanceof Conflict)) throw error;
      if (tries >= triesMax && performance.now() - startedAt >= forMs) return "again";
      // A random delay, so that the same two transactions do not conflict again. Longer if a document is locked for long.
      await delay(1 + Math.random() * waitMsMax * Math.min(tries, 10));
    }
  }
}

/** The transaction has written nothing, and may succeed if it is repeated. */
export class Conflict extends Error {}

/** Converts an error of a transaction. If the connection was lost before the commit was sent, nothing was written. */
function explainFailure(error: unknown): never {
  if (hasLabel(error, "UnknownTransactionCommitResult") || !hasLabel(error, "TransientTransactionError")) throw error;
  if (codeOf(error) !== 0) throw new Conflict("a write conflict", { cause: error });
  const meaning = explain(error, "a transaction");
  throw new UnreachableError("[onceflow] [mongodb] the connection was lost inside a transaction, which was not committed", meaning);
}
