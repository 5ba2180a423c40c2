import { NotKnownError, UnreachableError } from "../../../core/errors/errors.js";
import type { PacketAnswer, PacketOperation } from "../../../core/packets/operation.js";
import { sendPackets } from "../../../core/packets/rules/send.js";
import { settlePacket } from "../../../core/packets/rules/settle.js";
import { codeOf, explain } from "../errors.js";
import type { PacketConnection } from "./ask.js";
import { quickPackets } from "./quick/quick.js";
import { discover, unseenOf } from "./transaction/discover.js";
import type { LockMode } from "./transaction/lock.js";
import type { LoadedTable } from "./transaction/table.js";
import { decideInside, inTransaction, waitedTooLong } from "./transaction/transaction.js";
import { Wishes, wishesOf } from "./transaction/wishes.js";

type Answers = (PacketAnswer | "again")[];

/** Rows are locked by transactions of ours, which are short; and by those of handlers, which may not be. */
const rowsMsMax = 1000;
/** A lane is locked until the transaction that sent into it has ended, and a handler's may take its time: the others don't wait for it. */
const laneMsMax = 100;

/** A transaction may need a lock for each: the server has room for some thousands, for everybody together. */
const togetherMax = 200;

/**
 * A flush: one quick statement for what nearly always happens, and a transaction for all the rest. The connection must be
 * nobody else's meanwhile.
 */
export async function flushPackets(connection: PacketConnection, operations: readonly PacketOperation[]): Promise<Answers> {
  const quick = await quickPackets(connection, operations);
  const open = operations.filter((_, i) => quick[i] === undefined);
  const rest: Answers = [];
  try {
    for (let from = 0; from < open.length; from += togetherMax)
      rest.push(...(await together(connection, open.slice(from, from + togetherMax))));
  } catch (error) {
    // "Nothing was written" is not true of a flush whose other operations were.
    const some = open.length < operations.length || rest.length > 0;
    const meaning = explain(error, "a flush of packets");
    if (some && meaning instanceof UnreachableError)
      throw new NotKnownError(`${meaning.message}; which operations of the flush were written is not known`, error, meaning);
    throw error;
  }
  return quick.map((answer) => answer ?? rest.shift() ?? "again");
}

/** All in one transaction; what is in somebody's way in one of its own, after that. */
async function together(connection: PacketConnection, operations: readonly PacketOperation[]): Promise<Answers> {
  try {
    const answers = await decide(connection, operations, "try");
    const open = operations.filter((_, i) => answers[i] === "blocked");
    const waited = open.length === 0 ? [] : await decide(connection, open, "wait").catch(tooLong(open));
    return answers.map((answer) => (answer === "blocked" ? ((waited.shift() ?? "again") as PacketAnswer | "again") : answer));
  } catch (error) {
    if (codeOf(error) !== waitedTooLong) throw error;
    // Somebody has a row that one of them needs: the others go on without it.
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
