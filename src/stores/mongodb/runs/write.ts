import { conflictsOf } from "../../../core/runs/hook-conflicts.js";
import type { Entry, HookChange } from "../../../core/runs/operation.js";
import type { SessionOption } from "../driver.js";
import type { Collections } from "../layout.js";
import { absent, choose, type Expression, literal } from "../ledger/expressions.js";
import { requireRoom } from "../ledger/settle.js";
import { putChunks, voidChunks } from "./chunks.js";
import { entryId, type HookDocument } from "./document.js";
import { sendMail } from "./send.js";
import { startChildren } from "./start.js";

/** Whose entry it is: enough of the run to write what goes with it. */
export interface Place {
  readonly id: string;
  readonly no: string;
  readonly parent: string | null;
  readonly now: number;
}

export async function insertEntry(
  { journal }: Collections,
  { no, now }: Place,
  at: { readonly seq: number; readonly epoch: number; readonly events: string },
  options: SessionOption,
): Promise<void> {
  const { seq, epoch, events } = at;
  requireRoom(events);
  await journal.insertOne({ _id: entryId(no, seq), seq, epoch, at: now, events }, options);
}

/** All that goes with an entry: hooks, children, and what becomes of the run. Inside a transaction. */
export async function follow(collections: Collections, place: Place, entry: Entry, options: SessionOption): Promise<void> {
  if (entry.hooks.length > 0) await changeHooks(collections, place, entry.hooks, options);
  if (entry.children.length > 0) await startChildren(collections, entry.children, options);
  if (entry.voids) await voidChunks(collections, place.no, entry.voids, options);
  if (entry.chunks) await putChunks(collections, { _id: place.id, no: place.no }, entry.chunks, options);
  await writeThen(collections, place, entry, options);
}

/** Looked for first: a second hook with the same token would end the whole transaction. */
async function changeHooks(
  { hooks }: Collections,
  { id, no, now }: Place,
  changes: readonly HookChange[],
  options: SessionOption,
): Promise<void> {
  const tokens = changes.map((change) => ("add" in change ? change.add : change.drop));
  const found = await hooks.find({ _id: { $in: tokens } }, options).toArray();
  const before = new Map(found.map((hook) => [hook._id, hook]));
  const after = new Map(before);
  for (const change of changes) {
    if ("add" in change) {
      const { add: token, about, metadata } = change;
      if (!after.has(token)) after.set(token, { _id: token, run: id, no, about, metadata, createdAt: now });
    } else if (after.get(change.drop)?.no === no) after.delete(change.drop);
  }
  const gone = found.filter((hook) => after.get(hook._id) !== hook).map(({ _id }) => _id);
  const made = [...after.values()].filter((hook) => before.get(hook._id) !== hook);
  if (gone.length > 0) await hooks.deleteMany({ _id: { $in: gone }, no }, options);
  if (made.length > 0) await hooks.insertMany(made, options);
}

async function writeThen(collections: Collections, place: Place, { then, consumed, trial }: Entry, options: SessionOption): Promise<void> {
  const { runs, hooks } = collections;
  const { id, no, now, parent } = place;
  const of = { _id: id, no };
  const taken = { ...(consumed === null ? {} : { consumed }), ...trial };
  if (then.kind === "hold") {
    if (consumed !== null || trial) await runs.updateOne(of, { $set: taken }, options);
    return;
  }
  if (then.kind === "release") {
    // Mail that came while it was owned woke nobody: so it is compared here, on the document itself.
    const unread = { $gt: ["$mail", consumed ?? "$consumed"] };
    const wakeAt = choose(unread, now, then.wakeAt ?? absent);
    const { workers = [], until = 0 } = then.avoid ?? {};
    const avoided = workers.length === 0 ? { avoid: absent, avoidUntil: absent } : { avoid: literal(workers), avoidUntil: until };
    const release = { ...taken, ...avoided, owner: absent, status: then.status, trouble: literal(then.trouble), wakeAt };
    await runs.updateOne(of, [{ $set: release }], options);
    return;
  }
  requireRoom(then.output);
  const settled = settling(then.unsettled ?? 0, now);
  const end = { ...taken, ...settled, owner: absent, wakeAt: absent, status: then.status, output: literal(then.output), endedAt: now };
  await runs.updateOne(of, [{ $set: end }], options);
  await hooks.deleteMany({ no }, options);
  if (parent === null) return;
  const payload = JSON.stringify([then.status, then.output]);
  await sendMail(collections, { to: { run: parent }, kind: "child", about: id, payload, key: `child\0${id}` }, options);
}

/** A run with unsettled steps has no expiry; the others expire when their retention, counted from their end, is over. */
export function settling(unsettled: number, endedAt: Expression): { readonly unsettled: Expression; readonly expiresAt: Expression } {
  if (unsettled > 0) return { unsettled, expiresAt: absent };
  return { unsettled: absent, expiresAt: choose({ $eq: ["$retentionMs", null] }, absent, { $add: [endedAt, "$retentionMs"] }) };
}

/** The tokens that an entry wanted and did not get. */
export async function conflictsAfter(
  { hooks }: Collections,
  no: string,
  entry: Entry | undefined,
  options: SessionOption,
): Promise<readonly string[]> {
  const tokens = (entry?.hooks ?? []).flatMap((change) => ("add" in change ? [change.add] : []));
  if (tokens.length === 0) return [];
  const found = await hooks.find({ _id: { $in: tokens } }, options).toArray();
  const byToken = new Map<string, HookDocument>(found.map((hook) => [hook._id, hook]));
  return conflictsOf(entry, no, (token) => {
    const hook = byToken.get(token);
    return hook && { run: hook.no, about: hook.about };
  });
}
