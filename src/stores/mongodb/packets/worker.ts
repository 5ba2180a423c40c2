import { type FlowState, notesMax, workerNumber } from "../../../core/packets/packet.js";
import { nextNumber } from "../connection/counter.js";
import type { MongoClient, SessionOption } from "../driver.js";
import { isDuplicateKey } from "../errors.js";
import type { Collections } from "../layout.js";
import { absent, add, gte, literal, now } from "../ledger/expressions.js";
import { inTransaction } from "../transactions/in-transaction.js";
import { type NoteDocument, noteId } from "./document.js";
import { lostEveryRace, patient } from "./race.js";

/** Assigns a number, which is used once even if the process dies before the next line, and registers the worker. */
export async function joinWorkers(collections: Collections, leaseMs: number): Promise<number> {
  const { packetWorkers, bounded } = collections;
  const no = workerNumber(await nextNumber(collections, "packetWorkers"));
  await packetWorkers.updateOne({ _id: no }, leaseFor(leaseMs), { ...bounded, upsert: true });
  return no;
}

const leaseFor = (leaseMs: number) => [{ $set: { leaseUntil: add(now, leaseMs) } }];

export async function renewWorker({ packetWorkers, bounded }: Collections, worker: number, leaseMs: number): Promise<boolean> {
  const { matchedCount } = await packetWorkers.updateOne({ _id: worker }, leaseFor(leaseMs), bounded);
  return matchedCount === 1;
}

/** The worker's packets are due again, with what `change` says about the attempt. */
const released = (change: Record<string, unknown>) => [{ $set: { owner: absent, claim: absent, claimAt: "$dueAt", ...change } }];
const uncounted = { since: add("$since", 1) };

/** Removes the worker; its packets are due, and the attempt does not count. */
export async function leaveWorkers(client: MongoClient, collections: Collections, worker: number): Promise<void> {
  const { packets, packetWorkers } = collections;
  const leave = async (options: Required<SessionOption>) => {
    await packetWorkers.deleteOne({ _id: worker }, options);
    await packets.updateMany({ owner: worker }, released({ ...uncounted, dueAt: now, claimAt: now }), options);
  };
  if ((await inTransaction(client, "a leave", leave, patient)) === "again") throw lostEveryRace("a worker's leave");
}

/** Releases packets of claims whose reply was lost: the worker does not know them, so they were not delivered. */
export async function giveBack({ packets, bounded }: Collections, worker: number, claims: readonly number[]): Promise<void> {
  await packets.updateMany({ owner: worker, claim: { $in: [...claims] } }, released(uncounted), bounded);
}

/**
 * Removes a worker whose lease has expired, or that the store does not know, together with its packets: they are due, and each counts a
 * crash. In one transaction, because a known worker must not lose only some of its packets (`core/packets/rules/claim.ts`).
 */
export async function reapWorker(client: MongoClient, collections: Collections, worker: number): Promise<void> {
  const { packets, packetWorkers } = collections;
  await inTransaction(client, "a claim", async (options) => {
    await packetWorkers.deleteOne({ _id: worker, $expr: gte(now, "$leaseUntil") }, options);
    // It has renewed its lease since.
    if ((await packetWorkers.findOne({ _id: worker }, options)) !== null) return;
    await noteCrashes(collections, worker, options);
    await packets.updateMany({ owner: worker }, released({ crashes: add("$crashes", 1) }), options);
  });
}

/** A note for each packet of an execution that the worker has. */
async function noteCrashes({ packets, executions, notes }: Collections, worker: number, options: Required<SessionOption>): Promise<void> {
  const theirs = { owner: worker, execution: { $exists: true } };
  const lost = await packets
    .find(theirs, { ...options, projection: { execution: 1, queue: 1, attempt: 1 } })
    .sort({ _id: 1 })
    .toArray();
  if (lost.length === 0) return;
  const numbers = [...new Set(lost.map(({ execution }) => execution as number))];
  const found = await executions.find({ _id: { $in: numbers } }, { ...options, projection: { noted: 1, time: now } }).toArray();
  const writes: NoteDocument[] = [];
  for (const { _id: execution, noted, time } of found as unknown as { _id: number; noted: number; time: number }[]) {
    const theirNotes = lost.filter((packet) => packet.execution === execution).slice(0, Math.max(0, notesMax - noted));
    for (const [i, { _id: packet, queue, attempt }] of theirNotes.entries())
      writes.push({ _id: noteId(execution, noted + i), at: time, kind: "crashed", queue, packet, about: String(attempt) });
  }
  if (found.length > 0) {
    const counts = found.map(({ _id }) => {
      const noted = lost.filter(({ execution }) => execution === _id).length;
      return { updateOne: { filter: { _id }, update: { $inc: { noted, touched: 1 } } } };
    });
    await executions.bulkWrite(counts as never, options);
  }
  if (writes.length > 0) await notes.insertMany(writes, options);
}

export async function readFlowState({ flows }: Collections, flow: string): Promise<FlowState> {
  return (await flows.findOne({ _id: flow }))?.state ?? "active";
}

const stateTo = (state: FlowState) => [{ $set: { state: literal(state) } }];

/** Inside a transaction. */
export async function setFlowInside(
  { flows }: Collections,
  flow: string,
  state: FlowState,
  options: Required<SessionOption>,
): Promise<void> {
  await flows.updateOne({ _id: flow }, stateTo(state), { ...options, upsert: true });
}

export async function writeFlowState({ flows, bounded }: Collections, flow: string, state: FlowState): Promise<void> {
  const save = () => flows.updateOne({ _id: flow }, stateTo(state), { ...bounded, upsert: true });
  await save().catch((error: unknown) => (isDuplicateKey(error) ? save() : Promise.reject(error)));
}
