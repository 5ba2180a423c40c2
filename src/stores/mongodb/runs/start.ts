import { randomUUID } from "node:crypto";
import { assert } from "../../../core/errors/errors.js";
import type { RunAnswer, StartRun } from "../../../core/runs/operation.js";
import type { SessionOption } from "../driver.js";
import type { Collections } from "../layout.js";
import { absent, add, choose, isMissing, literal, now } from "../ledger/expressions.js";
import { requireRoom } from "../ledger/settle.js";
import { putChunks } from "./chunks.js";
import { entryId, inputLengthMax, type RunAndNow, runAndNow } from "./document.js";
import { withInputs } from "./load.js";
import { conflictsAfter, follow, insertEntry } from "./write.js";

/** Only the document of the run itself: no transaction is needed for it. */
export function isOneDocument({ first, input, chunks }: StartRun): boolean {
  return first === null && chunks === undefined && input.length <= inputLengthMax;
}

export async function startRun(collections: Collections, start: StartRun, options: SessionOption): Promise<RunAnswer> {
  const { id, first } = start;
  const no = randomUUID();
  requireRoom(start.input);
  const found = await collections.runs.findOneAndUpdate({ _id: id }, create(start, no), {
    ...options,
    upsert: true,
    returnDocument: "after",
    projection: runAndNow,
  });
  assert(found !== null, "an upsert finds what it inserts");
  // Sent again by the driver, an insert is answered without the projection: the time of it is in the document.
  const told = found as unknown as Omit<RunAndNow, "now"> & { readonly now?: number };
  const run: RunAndNow = { ...told, now: told.now ?? told.createdAt };
  if (run.no !== no) return await existing(collections, run, start, options);
  const place = { id, no, parent: start.parent, now: run.now };
  if (start.input.length > inputLengthMax) {
    const aside = { _id: entryId(no, 0), seq: 0, epoch: 0, at: run.now, events: start.input };
    await collections.journal.insertOne(aside, options);
  }
  if (start.chunks) await putChunks(collections, { _id: id, no }, start.chunks, options);
  if (first === null) return { kind: "created", now: run.now, conflicts: [] };
  const { events } = first.entry;
  if (events !== null) await insertEntry(collections, place, { seq: 1, epoch: 1, events }, options);
  await follow(collections, place, first.entry, options);
  return { kind: "created", now: run.now, conflicts: await conflictsAfter(collections, no, first.entry, options) };
}

/** Most of them are one document each, and go in one trip. */
export async function startChildren(collections: Collections, children: readonly StartRun[], options: SessionOption): Promise<void> {
  const upserts = children.filter(isOneDocument).map((child) => ({
    updateOne: { filter: { _id: child.id }, update: create(child, randomUUID()), upsert: true },
  }));
  if (upserts.length > 0) await collections.runs.bulkWrite(upserts, options);
  for (const child of children) if (!isOneDocument(child)) await startRun(collections, child, options);
}

async function existing(
  collections: Collections,
  run: RunAndNow,
  { creator, first }: StartRun,
  options: SessionOption,
): Promise<RunAnswer> {
  if (run.creator === creator)
    return { kind: "created", now: run.now, conflicts: await conflictsAfter(collections, run.no, first?.entry, options) };
  const [record] = await withInputs(collections, [run], options);
  assert(record !== undefined, "a run has its input as long as it is there");
  return { kind: "exists", run: record };
}

/** A new document, or the one that is there, which MongoDB then does not write. */
function create(
  { id, workflow, input, fingerprint, parent, creator, retentionMs, first }: StartRun,
  no: string,
): Record<string, unknown>[] {
  const fresh = {
    _id: literal(id),
    no: literal(no),
    workflow: literal(workflow),
    status: first === null ? "pending" : "running",
    input: input.length > inputLengthMax ? null : literal(input),
    fingerprint: literal(fingerprint),
    output: null,
    trouble: null,
    owner: first === null ? absent : literal(first.owner),
    epoch: first === null ? 0 : 1,
    wakeAt: first === null ? now : add(now, first.leaseMs),
    mail: 0,
    consumed: 0,
    parent: literal(parent),
    creator: literal(creator),
    createdAt: now,
    startedAt: first === null ? null : now,
    endedAt: null,
    retentionMs: literal(retentionMs),
  };
  return [{ $replaceWith: choose(isMissing("$no"), fresh, "$$ROOT") }];
}
