import { assert } from "../../../core/errors/errors.js";
import type { Claimed } from "../../../core/runs/operation.js";
import type { RunRecord } from "../../../core/runs/run.js";
import type { SessionOption } from "../driver.js";
import type { Collections } from "../layout.js";
import { entriesAfter, entryId, type RunAndNow, type RunDocument, runAndNow, toEntry, toHook, toMail, toRun } from "./document.js";

/** The run, and the server's time. */
export async function findRun({ runs }: Collections, id: string, options: SessionOption): Promise<RunAndNow | undefined> {
  return ((await runs.findOne({ _id: id }, { ...options, projection: runAndNow })) ?? undefined) as RunAndNow | undefined;
}

/** Adds the inputs to runs; long inputs are read from the journal. */
export async function withInputs(collections: Collections, found: readonly RunDocument[], options: SessionOption): Promise<RunRecord[]> {
  const long = found.filter(({ input }) => input === null).map(({ no }) => entryId(no, 0));
  const aside = long.length === 0 ? [] : await collections.journal.find({ _id: { $in: long } }, options).toArray();
  const inputs = new Map(aside.map(({ _id, events }) => [_id, events]));
  // A run that was purged between the two reads has no input any more: leave it out.
  return found.flatMap((run) => {
    const input = run.input ?? inputs.get(entryId(run.no, 0));
    return input === undefined ? [] : [toRun(run, input)];
  });
}

/** Everything that is needed to continue a run. Inside a transaction, so that it is consistent. */
export async function loadRun(collections: Collections, id: string, options: SessionOption): Promise<Omit<Claimed, "lapsed"> | undefined> {
  const found = await findRun(collections, id, options);
  if (found === undefined) return undefined;
  const { no, consumed } = found;
  const [run] = await withInputs(collections, [found], options);
  assert(run !== undefined, "an existing run has its input");
  const journal = await collections.journal.find(entriesAfter(no, 0), options).sort({ _id: 1 }).toArray();
  const mail = await collections.mail
    .find({ run: no, seq: { $gt: consumed } }, options)
    .sort({ seq: 1 })
    .toArray();
  const hooks = await collections.hooks.find({ no }, options).sort({ createdAt: 1, _id: 1 }).toArray();
  return { run, journal: journal.map(toEntry), mail: mail.map(toMail), hooks: hooks.map(toHook) };
}
