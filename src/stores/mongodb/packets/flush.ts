import { NotKnownError, UnreachableError } from "../../../core/errors/errors.js";
import type { PacketAnswer, PacketOperation } from "../../../core/packets/operation.js";
import { sendPackets } from "../../../core/packets/rules/send.js";
import { settlePacket } from "../../../core/packets/rules/settle.js";
import type { PacketTable } from "../../../core/packets/rules/table.js";
import { Wishes, wishesOf } from "../../shared/packet-wishes.js";
import { SeenPackets } from "../../shared/seen-packets.js";
import type { MongoClient, SessionOption } from "../driver.js";
import type { Collections } from "../layout.js";
import { placeOf } from "../ledger/record-place.js";
import { inTransaction, type Patience } from "../transactions/in-transaction.js";
import { toPacketRow } from "./document.js";
import { orConflict } from "./race.js";
import { decideInside } from "./transaction.js";
import { lockKeys } from "./write.js";

/** Operations per transaction: MongoDB advises at most 1,000 documents in one, and an operation writes several. */
const togetherMax = 50;
/** Characters of payloads per transaction. */
const lengthMax = 4 * 1024 * 1024;
/** Before the operations of a transaction that conflicts are tried one by one, so that one of them does not keep the others waiting. */
const triesTogether = 2;

type Answers = (PacketAnswer | "again")[];

/** A flush: transactions with many operations each, in the order of the operations. */
export async function flushPackets(
  client: MongoClient,
  collections: Collections,
  operations: readonly PacketOperation[],
): Promise<Answers> {
  await createKeyCollections(collections, operations);
  const answers: Answers = [];
  try {
    for (const together of chunksOf(operations)) answers.push(...(await decideTogether(client, collections, together)));
  } catch (error) {
    // UnreachableError would claim that nothing was written, but other operations of the flush were.
    if (answers.length > 0 && error instanceof UnreachableError)
      throw new NotKnownError(`${error.message}; some operations of the flush may have been applied`, error, error);
    throw error;
  }
  return answers;
}

/** Before the transaction: a collection that is created later is not part of the transaction's snapshot. */
async function createKeyCollections(collections: Collections, operations: readonly PacketOperation[]): Promise<void> {
  const scopes = new Set(operations.flatMap(({ packets }) => packets.flatMap(({ key }) => (key === null ? [] : [key.scope]))));
  for (const scope of scopes) await placeOf(collections, scope, { creates: true });
}

function chunksOf(operations: readonly PacketOperation[]): PacketOperation[][] {
  const chunks: PacketOperation[][] = [];
  let length = 0;
  for (const operation of operations) {
    const own = operation.packets.reduce((sum, { payload }) => sum + payload.length, 0);
    const last = chunks.at(-1);
    if (last === undefined || last.length >= togetherMax || length + own > lengthMax) {
      chunks.push([operation]);
      length = own;
    } else {
      last.push(operation);
      length += own;
    }
  }
  return chunks;
}

async function decideTogether(client: MongoClient, collections: Collections, operations: readonly PacketOperation[]): Promise<Answers> {
  const decide = (some: readonly PacketOperation[], patience?: Patience) =>
    inTransaction(client, "a flush of packets", (options, tries) => orConflict(decideAll(collections, some, options, tries)), patience);
  if (operations.length > 1) {
    const answers = await decide(operations, { triesMax: triesTogether });
    if (answers !== "again") return answers;
  }
  const answers: Answers = [];
  for (const one of operations) {
    const answer = await decide([one]);
    answers.push(...(answer === "again" ? ["again" as const] : answer));
  }
  return answers;
}

async function decideAll(
  collections: Collections,
  operations: readonly PacketOperation[],
  options: Required<SessionOption>,
  tries: number,
): Promise<PacketAnswer[]> {
  const isRetry = tries > 1;
  const seen = await seenOf(collections, operations, isRetry ? {} : options);
  const wishes = operations.reduce((sum, operation) => sum.add(wishesOf(operation, seen)), new Wishes());
  if (isRetry) await lockKeys(collections, wishes.keys.values(), options);
  return await decideInside(collections, { wishes }, options, (table) => operations.map((operation) => apply(table, operation)));
}

/** The packets that will be removed: from their key, lane and execution it follows which other rows are needed. */
async function seenOf({ packets }: Collections, operations: readonly PacketOperation[], options: SessionOption): Promise<SeenPackets> {
  const numbers = operations.flatMap((operation) => (operation.verb === "settlePacket" ? [operation.no] : []));
  if (numbers.length === 0) return SeenPackets.none;
  const seen = new SeenPackets();
  const found = await packets.find({ _id: { $in: numbers } }, { ...options, projection: { payload: 0 } }).toArray();
  for (const document of found) seen.packets.set(document._id, toPacketRow(document));
  return seen;
}

function apply(table: PacketTable, operation: PacketOperation): PacketAnswer {
  return operation.verb === "sendPackets" ? sendPackets(table, operation) : settlePacket(table, operation);
}
