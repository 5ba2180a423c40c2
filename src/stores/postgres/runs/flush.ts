import { NotKnownError, UnreachableError } from "../../../core/errors/errors.js";
import type { Append, RunAnswer, RunOperation, WriteChunks } from "../../../core/runs/operation.js";
import type { Tx } from "../../../core/store/store.js";
import { beginOurs } from "../connection/session.js";
import type { PgClient } from "../driver.js";
import { codeOf, explain } from "../errors.js";
import { asClient } from "../transactions/transact.js";
import { flushChunks } from "./chunks.js";
import { quickRuns } from "./quick.js";
import { mailStatement, mailValues, type Posted, postedAnswer } from "./send.js";
import { inSchema } from "./tell.js";
import { type Ask, appendInside, appendLateInside, findStarted, startInside } from "./write.js";
import { type WriteStatements, writeStatements } from "./write-statements.js";

/** Somebody was faster, or two waited for each other: nothing was changed, and another time it goes through. */
const lostRace = /^(40001|40P01|55P03|23505)$/;

export interface RunStatements {
  readonly schema: string;
  readonly write: WriteStatements;
  readonly mailToToken: string;
}

export function runStatements(schema: string): RunStatements {
  return { schema, write: writeStatements(schema), mailToToken: inSchema(mailStatement("token"), schema) };
}

/**
 * A flush: one quick statement for what nearly always happens; one by one what it left open, and what it is not for
 * (hooks, children, ends that a parent hears of, mail). The connection must be nobody else's meanwhile.
 */
export async function flushRuns(
  client: PgClient,
  statements: RunStatements,
  operations: readonly RunOperation[],
): Promise<(RunAnswer | "again")[]> {
  const quick = await quickRuns(client, statements.schema, operations);
  const chunks = await flushChunks(client, statements.schema, operations);
  const answers: (RunAnswer | "again")[] = [];
  for (const [i, operation] of operations.entries()) {
    const done = quick[i] ?? chunks[i];
    if (done !== undefined || operation.verb === "write") answers.push(done ?? "again");
    else answers.push(await alone(client, statements, operation).catch((error: unknown) => refused(error, operations.length)));
  }
  return answers;
}

/** "again" for a lost race. Anything else ends the flush. */
function refused(error: unknown, operations: number): "again" {
  if (lostRace.test(codeOf(error))) return "again";
  // "Nothing was written" is not true of a flush whose other operations were.
  const meaning = explain(error, "a flush of runs");
  if (operations > 1 && meaning instanceof UnreachableError)
    throw new NotKnownError(`${meaning.message}; which operations of the flush were written is not known`, error, meaning);
  throw error;
}

async function alone(
  client: PgClient,
  statements: RunStatements,
  operation: Exclude<RunOperation, WriteChunks>,
): Promise<RunAnswer | "again"> {
  const ask = asking(client, statements.write, "onceflow-runs-");
  if (operation.verb === "send") {
    const values = mailValues(operation, null);
    if ("run" in operation.to) return postedAnswer(await ask<Posted>("mail", values));
    return postedAnswer(await asked<Posted>(client, { name: "onceflow-runs-mail-to-token", text: statements.mailToToken, values }));
  }
  if (operation.verb === "appendLate") return await inTransaction(client, () => appendLateInside(ask, operation));
  // A start that the quick statement has left open: the run was there.
  const found = operation.verb === "start" ? await findStarted(ask, operation) : undefined;
  return (
    found ?? (await inTransaction(client, () => (operation.verb === "start" ? startInside(ask, operation) : appendInside(ask, operation))))
  );
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

/** The append as the last statements of a transaction, ours or the user's own. */
export async function appendWithin(tx: Tx, { write }: RunStatements, append: Append): Promise<RunAnswer> {
  // Not prepared: the connection is not ours, and may be another one at every transaction.
  return await appendInside(asking(asClient(tx), write), append);
}

function asking(client: PgClient, statements: WriteStatements, prefix?: string): Ask {
  return (name, values) =>
    asked(client, { ...(prefix === undefined ? {} : { name: `${prefix}${name}` }), text: statements[name], values: [...values] });
}

async function asked<T>(client: PgClient, query: { name?: string; text: string; values: unknown[] }): Promise<T | undefined> {
  const { rows } = await client.query<{ answer?: string }>(query);
  return rows[0]?.answer === undefined ? undefined : (JSON.parse(rows[0].answer) as T);
}
