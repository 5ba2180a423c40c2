import type { LogEntry, LogQuery } from "../../../core/runs/log.js";
import { nextNumber } from "../connection/counter.js";
import type { SessionOption } from "../driver.js";
import { isDuplicateKey } from "../errors.js";
import type { Collections } from "../layout.js";
import { requireRoom } from "../ledger/settle.js";
import { Conflict } from "../transactions/in-transaction.js";
import type { LogDocument } from "./document.js";

export async function findLogged({ operatorLog }: Collections, action: string, options: SessionOption): Promise<LogEntry | undefined> {
  const found = await operatorLog.findOne({ _id: action }, options);
  return found === null ? undefined : toLogEntry(found);
}

/**
 * Writes an entry of the operator log in the transaction of its action, and returns it with its number. A number is lost if the transaction is
 * aborted, and of two actions at the same time the one with the larger number may be visible first.
 */
export async function writeLog(collections: Collections, { id: _id, ...entry }: LogEntry, options: SessionOption): Promise<LogEntry> {
  for (const text of [entry.reason, entry.detail]) requireRoom(text);
  const document: LogDocument = { _id, ...entry, no: await nextNumber(collections, "operatorLog") };
  try {
    await collections.operatorLog.insertOne(document, options);
  } catch (error) {
    // The same action was committed since this transaction began: the next try finds it.
    if (isDuplicateKey(error)) throw new Conflict("another process has done the action", { cause: error });
    throw error;
  }
  return toLogEntry(document);
}

export async function readLog({ operatorLog }: Collections, { subject, id, before, limit }: LogQuery): Promise<LogEntry[]> {
  const filter = {
    ...(subject === undefined ? {} : { subject }),
    ...(id === undefined ? {} : { _id: id }),
    ...(before === undefined ? {} : { no: { $lt: before } }),
  };
  return (await operatorLog.find(filter).sort({ no: -1 }).limit(limit).toArray()).map(toLogEntry);
}

function toLogEntry({ _id: id, no, at, actor, action, subject, reason, detail }: LogDocument): LogEntry {
  return { no, id, at, actor, action, subject, reason, detail };
}
