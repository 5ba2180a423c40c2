import { type DeliveryEntry, type DeliveryQuery, type EntryToWrite, fullEntry } from "../../../core/packets/delivery-entry.js";
import type { SessionOption } from "../driver.js";
import type { Collections } from "../layout.js";
import { requireRoom } from "../ledger/settle.js";
import { type DeliveryDocument, idsOf } from "./document.js";

const idOf = ({ execution, packet, attempt }: DeliveryEntry) => `${execution}:${packet}:${attempt}`;

/**
 * Adds to the histories of executions that exist. Two transactions that do not see each other's entries may write one entry more than an
 * execution has room for.
 */
export async function insertEntries(
  { deliveries, executions }: Collections,
  entries: readonly EntryToWrite[],
  options: Required<SessionOption>,
): Promise<void> {
  const documents: DeliveryDocument[] = [];
  for (const execution of new Set(entries.map((entry) => entry.execution))) {
    if ((await executions.findOne({ _id: execution }, { ...options, projection: { _id: 1 } })) === null) continue;
    const theirs = entries.filter((entry) => entry.execution === execution);
    const before = await deliveries.countDocuments(idsOf(execution), options);
    for (const [i, entry] of theirs.entries()) {
      if (before + i > entry.entriesMax) break;
      const { entriesMax, ...written } = before + i < entry.entriesMax ? entry : fullEntry(entry);
      if (written.details !== null) requireRoom(written.details);
      documents.push({ _id: idOf(written), ...written });
    }
  }
  if (documents.length > 0) await deliveries.insertMany(documents, options);
}

export async function listDeliveries(
  { deliveries }: Collections,
  { execution, packets, after, limit }: DeliveryQuery,
): Promise<DeliveryEntry[]> {
  const where = {
    ...(execution !== undefined && idsOf(execution)),
    ...(packets !== undefined && { packet: { $in: [...packets] } }),
    ...(after !== undefined && { $or: laterThan(after) }),
  };
  const found = await deliveries.find(where).sort({ at: 1, packet: 1, attempt: 1 }).limit(limit).toArray();
  return found.map(({ _id, ...entry }) => entry);
}

function laterThan({ at, packet, attempt }: NonNullable<DeliveryQuery["after"]>): object[] {
  return [{ at: { $gt: at } }, { at, packet: { $gt: packet } }, { at, packet, attempt: { $gt: attempt } }];
}
