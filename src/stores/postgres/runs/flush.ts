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

/** Somebody was faster, or two waited for each other: nothing was changed, and another time it goes through. */
const lostRace = /^(40001|40P01|55P03|23505)$/;

/**
 * A flush: one quick statement for what nearly always happens, one for all chunks, one for each mail; and by the rules, each in
 * a transaction of its own, what these left open and what they are not for (hooks, children, ends that a parent hears of). The
 * connection must be nobody else's meanwhile.
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

/** "again" for a lost race. Anything else ends the flush. */
function refused(error: unknown, operations: number): "again" {
  if (error instanceof Overtaken || lostRace.test(codeOf(error))) return "again";
  // "Nothing was written" is not true of a flush whose other operations were.
  const meaning = explain(error, "a flush of runs");
  if (operations > 1 && meaning instanceof UnreachableError)
    throw new NotKnownError(`${meaning.message}; which operations of the flush were written is not known`, error, meaning);
  throw error;
}

async function alone(connection: RunConnection, operation: Exclude<RunOperation, WriteChunks>): Promise<RunAnswer | "again"> {
  if (operation.verb === "send") return await post(connection, operation);
  // A start that the quick statement has left open: most often the run was there.
  const found = operation.verb === "start" ? await findStarted(connection, operation) : undefined;
  return found ?? (await inTransaction(connection.client, () => decideInside(connection, operation)));
}

async function post(connection: RunConnection, send: Send): Promise<RunAnswer | "again"> {
  const to = "run" in send.to ? "run" : "token";
  return postedAnswer(await ask<Posted>(connection, { name: `mail-to-${to}`, text: mailStatement(to) }, mailValues(send)));
}

/** When a rollback fails, its own error counts: the connection is broken, and has to be given up. */
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
