import type { Alert, PacketAct, PacketActed } from "../../../core/packets/operation.js";
import { changeLetters } from "../../../core/packets/rules/act.js";
import { discard, reinject } from "../../../core/packets/rules/letters.js";
import type { PacketTable } from "../../../core/packets/rules/table.js";
import { letterWishes, Wishes } from "../../shared/packet-wishes.js";
import { SeenPackets } from "../../shared/seen-packets.js";
import { asking } from "../connection/ask.js";
import type { MongoClient, SessionOption } from "../driver.js";
import type { Collections } from "../layout.js";
import { serverTime } from "../ledger/read.js";
import { findLogged, writeLog } from "../runs/log.js";
import { inTransaction, type Patience } from "../transactions/in-transaction.js";
import { idsOf, toPacketRow } from "./document.js";
import { lostEveryRace, orConflict, patient } from "./race.js";
import { decideInside } from "./transaction.js";
import { setFlowInside } from "./worker.js";

export function reinjectLetter(client: MongoClient, collections: Collections, no: number, alert?: Alert): Promise<boolean> {
  return untilDone(
    "a retry of a dead letter",
    onLetter(client, collections, no, (table) => reinject(table, no, alert), patient),
  );
}

export function discardLetter(client: MongoClient, collections: Collections, no: number): Promise<boolean> {
  return untilDone(
    "a discard of a dead letter",
    onLetter(client, collections, no, (table) => discard(table, no), patient),
  );
}

/** An operator's action: the change and its entry in the operator log are one transaction. */
export function actOnPackets(client: MongoClient, collections: Collections, { log, change }: PacketAct): Promise<PacketActed> {
  const work = async (options: Required<SessionOption>): Promise<PacketActed> => {
    const earlier = await findLogged(collections, log.id, options);
    if (earlier !== undefined) return { kind: "acted", entry: earlier, repeated: true };
    if (change.kind === "flow") await setFlowInside(collections, change.flow, change.state, options);
    else {
      const nos = change.letters.map(({ no }) => no);
      if ((await changeInside(collections, nos, (table) => changeLetters(table, change), options)) === 0) return { kind: "absent" };
    }
    const entry = await writeLog(collections, { ...log, no: 0, at: await serverTime(collections) }, options);
    return { kind: "acted", entry, repeated: false };
  };
  return untilDone(
    `"${log.action}"`,
    inTransaction(client, "an action", (options) => orConflict(work(options)), patient),
  );
}

async function untilDone<T>(what: string, change: Promise<T | "again">): Promise<T> {
  const done = await change;
  if (done === "again") throw lostEveryRace(what);
  return done;
}

/** Returns whether the packet was a dead letter. */
async function onLetter(
  client: MongoClient,
  collections: Collections,
  no: number,
  verb: (table: PacketTable) => object | undefined,
  patience?: Patience,
): Promise<boolean | "again"> {
  const work = (options: Required<SessionOption>) => changeInside(collections, [no], (table) => verb(table) !== undefined, options);
  return await inTransaction(client, "a change of a dead letter", (options) => orConflict(work(options)), patience);
}

/** Inside a transaction: changes dead letters. */
async function changeInside<T>(
  collections: Collections,
  nos: readonly number[],
  verb: (table: PacketTable) => T,
  options: Required<SessionOption>,
): Promise<T> {
  const seen = new SeenPackets();
  const found = await collections.packets.find({ _id: { $in: [...nos] } }, { ...options, projection: { payload: 0 } }).toArray();
  for (const document of found) seen.packets.set(document._id, toPacketRow(document));
  const wishes = nos.reduce((sum, no) => sum.add(letterWishes(no, seen)), new Wishes());
  return await decideInside(collections, { wishes }, options, verb);
}

/** Executions with their notes and history, then dead letters, each in a transaction. What conflicts is left for the next purge. */
export async function purgePackets(client: MongoClient, collections: Collections, limit: number): Promise<number> {
  const { executions, notes, deliveries, packets } = collections;
  const over = await asking("a purge", async () => {
    const time = await serverTime(collections);
    const until = { $lte: time };
    const [ended, letters] = await Promise.all([
      executions
        .find({ expiresAt: until }, { projection: { _id: 1 } })
        .sort({ expiresAt: 1 })
        .limit(limit)
        .toArray(),
      packets
        .find({ "dead.expiresAt": until }, { projection: { _id: 1 } })
        .sort({ "dead.expiresAt": 1, _id: 1 })
        .limit(limit)
        .toArray(),
    ]);
    return { time, ended, letters };
  });
  let removed = 0;
  for (const { _id } of over.ended) {
    const gone = await inTransaction(client, "a purge", async (options) => {
      // A retried dead letter may have opened it again.
      const { deletedCount } = await executions.deleteOne({ _id, expiresAt: { $lte: over.time } }, options);
      if (deletedCount === 1) for (const each of [notes, deliveries]) await each.deleteMany(idsOf(_id), options);
      return deletedCount;
    });
    if (gone === 1) removed += 1;
  }
  for (const { _id } of over.letters.slice(0, limit - removed)) {
    const gone = await onLetter(client, collections, _id, (table) => discard(table, _id));
    if (gone === true) removed += 1;
  }
  return removed;
}
