import { NotKnownError, UnreachableError } from "../../../core/errors/errors.js";
import type { PacketAnswer, PacketOperation } from "../../../core/packets/operation.js";
import { sendPackets } from "../../../core/packets/rules/send.js";
import { settlePacket } from "../../../core/packets/rules/settle.js";
import type { LoadedTable } from "../../shared/loaded-packet-table.js";
import { Wishes, wishesOf } from "../../shared/packet-wishes.js";
import { codeOf, explain } from "../errors.js";
import type { PacketConnection } from "./ask.js";
import { quickPackets } from "./quick/quick.js";
import { discover, unseenOf } from "./transaction/discover.js";
import type { LockMode } from "./transaction/lock.js";
import { decideInside, inTransaction, waitedTooLong } from "./transaction/transaction.js";

type Answers = (PacketAnswer | "again")[];

/**
 * Maximum wait for row locks. They are held by the store's transactions, which are short, and by handlers' transactions, which may
 * be long.
 */
const rowsMsMax = 1000;
/** Maximum wait for a lane. A lane is locked until the transaction that sent into it ends, which may take long for a handler's. */
const laneMsMax = 100;

/** Maximum operations per transaction: each may need a lock, and the server has only some thousands in total. */
const togetherMax = 200;

/**
 * A flush: one quick statement for the common operations, and a transaction for the rest. The connection must not be used for
 * anything else meanwhile.
 */
export async function flushPackets(connection: PacketConnection, operations: readonly PacketOperation[]): Promise<Answers> {
  const quick = await quickPackets(connection, operations);
  const open = operations.filter((_, i) => quick[i] === undefined);
  const rest: Answers = [];
  try {
    for (let from = 0; from < open.length; from += togetherMax)
      rest.push(...(await together(connection, open.slice(from, from + togetherMax))));
  } catch (error) {
    // UnreachableError would claim that nothing was written, but other operations of the flush were.
    const some = open.length < operations.length || rest.length > 0;
    const meaning = explain(error, "a flush of packets");
    if (some && meaning instanceof UnreachableError)
      throw new NotKnownError(`${meaning.message}; some operations of the flush may have been applied`, error, meaning);
    throw error;
  }
  return quick.map((answer) => answer ?? rest.shift() ?? "again");
}

/** All operations in one transaction; those that are blocked by another transaction each in their own after that. */
async function together(connection: PacketConnection, operations: readonly PacketOperation[]): Promise<Answers> {
  try {
    const answers = await decide(connection, operations, "try");
    const open = operations.filter((_, i) => answers[i] === "blocked");
    const waited = open.length === 0 ? [] : await decide(connection, open, "wait").catch(tooLong(open));
    return answers.map((answer) => (answer === "blocked" ? ((waited.shift() ?? "again") as PacketAnswer | "again") : answer));
  } catch (error) {
    if (codeOf(error) !== waitedTooLong) throw error;
    // Another transaction has locked a row that one of them needs: run each by itself, so that the others do not wait.
    const answers: Answers = [];
    for (const one of operations) answers.push(...((await decide(connection, [one], "wait").catch(tooLong([one]))) as Answers));
    return answers;
  }
}

function tooLong(operations: readonly PacketOperation[]): (error: unknown) => "again"[] {
  return (error) => {
    if (codeOf(error) !== waitedTooLong) throw error;
    return operations.map(() => "again");
  };
}

async function decide(
  connection: PacketConnection,
  operations: readonly PacketOperation[],
  mode: LockMode,
): Promise<(PacketAnswer | "again" | "blocked")[]> {
  const answers = await inTransaction(connection.client, mode === "wait" ? laneMsMax : rowsMsMax, async (extra) => {
    const seen = await discover(connection, unseenOf(operations));
    const wishes = operations.map((operation) => wishesOf(operation, seen));
    const all = wishes.reduce((sum, each) => sum.add(each), new Wishes().add(extra));
    return await decideInside(connection, { wishes: all, mode }, (table, locked) =>
      operations.map((operation, i) => {
        const blocked = [...(wishes[i]?.lanes.keys() ?? [])].some((lane) => !locked.lanes.has(lane));
        return blocked ? ("blocked" as const) : apply(table, operation);
      }),
    );
  });
  return answers ?? operations.map(() => "again");
}

function apply(table: LoadedTable, operation: PacketOperation): PacketAnswer {
  return operation.verb === "sendPackets" ? sendPackets(table, operation) : settlePacket(table, operation);
}
