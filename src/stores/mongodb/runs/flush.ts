import type { RunAnswer, RunOperation } from "../../../core/runs/operation.js";
import type { Gate } from "../../../core/work/gate.js";
import { again, asking } from "../connection/ask.js";
import type { MongoClient, SessionOption } from "../driver.js";
import { isDuplicateKey } from "../errors.js";
import type { Collections } from "../layout.js";
import { append, isOneEntry } from "./append.js";
import { writeChunks } from "./chunks.js";
import { appendLate } from "./late.js";
import { sendMail } from "./send.js";
import { isOneDocument, startRun } from "./start.js";
import { inTransaction } from "./transaction.js";

/**
 * Each operation is atomic by itself, and they go side by side. If one of them fails, all are sent again, and find what
 * they did.
 */
export async function flushRuns(
  client: MongoClient,
  collections: Collections,
  gate: Gate,
  operations: readonly RunOperation[],
): Promise<(RunAnswer | "again")[]> {
  return await gate.runAll(operations, (operation) => apply(client, collections, operation));
}

async function apply(client: MongoClient, collections: Collections, operation: RunOperation): Promise<RunAnswer | "again"> {
  const what = `a run's ${operation.verb}`;
  if (operation.verb === "append" && isOneEntry(operation)) return await asking(what, () => again(() => append(collections, operation)));
  if (operation.verb === "start" && isOneDocument(operation))
    return await asking(what, () => again(() => startAlone(collections, operation)));
  return await inTransaction(client, what, (options) => write(collections, operation, options));
}

function write(collections: Collections, operation: RunOperation, options: SessionOption): Promise<RunAnswer> {
  if (operation.verb === "append") return append(collections, operation, options);
  if (operation.verb === "appendLate") return appendLate(collections, operation, options);
  if (operation.verb === "write") return writeChunks(collections, operation, options);
  return operation.verb === "start" ? startRun(collections, operation, options) : sendMail(collections, operation, options);
}

/** Two who insert the same document at once: MongoDB tells one of them that it exists, who then finds it. */
async function startAlone(collections: Collections, operation: Extract<RunOperation, { verb: "start" }>): Promise<RunAnswer | "again"> {
  return await startRun(collections, operation, {}).catch((error: unknown) => {
    if (isDuplicateKey(error)) return "again" as const;
    throw error;
  });
}
