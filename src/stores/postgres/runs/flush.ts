import { NotKnownError, UnreachableError } from "../../../core/errors/errors.js";
import type { RunAnswer, RunOperation, Send, WriteChunks } from "../../../core/runs/operation.js";
import { beginOurs } from "../connection/session.js";
import type { PgClient } from "../driver.js";
import { codeOf, explain } from "../errors.js";
import { ask, type RunConnection } from "./ask.js";
import { flushChunks } from "./chunks.js";
import { decideInside, findStarted } from "./decide.js";
import { quickRuns } from "./quick.js";
import { mailStatement, mailValues, type Posted, postedAnswer } from "./send.js";
import { Overtaken } from "./write.js";

/** Serialization failure, deadlock, lock timeout or duplicate key: nothing was changed, and a retry can succeed. */
const lostRace = /^(40001|40P01|55P03|23505)$/;

/**
 * A flush: one quick statement for the common operations, one for all chunks, one for each mail; and the rules, in a transaction for each
 * operation, for operations that these could not do or do not cover (hooks, children, ends of runs with a parent). The
 * connection must not be used for anything else meanwhile.
 */
export async function flushRuns(client: PgClient, schema: string, operations: readonly RunOperation[]): Promise<(RunAnswer | "again")[]> {
  const quick = await quickRuns(client, schema, operations);
  const chunks = await flushChunks(client, schema, operations);
  const connection = { client, schema, prepared: true };
  const answers: (RunAnswer | "again")[] = [];
  for (const [i, operation] of operations.entries()) {
    const done = quick[i] ?? chunks[i];
    if (done !== undefined || operation.verb === "write") answers.push(done ?? "again");
    else answers.push(await alone(connection, operation).catch((error: unknown) => refused(error, operations.length)));
  }
  return answers;
}

/** Returns "again" for a lost race. Any other error ends the flush. */
function refused(error: unknown, operations: number): "again" {
  if (error instanceof Overtaken || lostRace.test(codeOf(error))) return "again";
  // UnreachableError would claim that nothing was written, but other operations of the flush were.
  const meaning = explain(error, "a flush of runs");
  if (operations > 1 && meaning instanceof UnreachableError)
    throw new NotKnownError(`${meaning.message}; some operations of the flush may have been applied`, error, meaning);
  throw error;
}

async function alone(connection: RunConnection, operation: Exclude<RunOperation, WriteChunks>): Promise<RunAnswer | "again"> {
  if (operation.verb === "send") return await post(connection, operation);
  // A start that the quick statement did not do: usually the run already exists.
  const found = operation.verb === "start" ? await findStarted(connection, operation) : undefined;
  return found ?? (await inTransaction(connection.client, () => decideInside(connection, operation)));
}

async function post(connection: RunConnection, send: Send): Promise<RunAnswer | "again"> {
  const to = "run" in send.to ? "run" : "token";
  return postedAnswer(await ask<Posted>(connection, { name: `mail-to-${to}`, text: mailStatement(to) }, mailValues(send)));
}

/** If the rollback fails, its error is thrown: the connection is broken. */
async function inTransaction<T>(client: PgClient, work: () => Promise<T>): Promise<T> {
  await client.query(beginOurs);
  try {
    const result = await work();
    await client.query("COMMIT");
    return result;
  } catch (error) {
    await client.query("ROLLBACK");
    throw error;
  }
}
