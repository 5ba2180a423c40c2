import type { HookRecord, JournalEntry, Mail, RunRecord } from "../../../core/runs/run.js";
import type { Collections } from "../layout.js";
import { serverTime } from "../ledger/read.js";
import { entriesAfter, toEntry, toHook, toMail } from "./document.js";
import { findRun, withInputs } from "./load.js";

export async function readRun(collections: Collections, id: string): Promise<RunRecord | undefined> {
  const found = await findRun(collections, id, {});
  return found && (await withInputs(collections, [found], {}))[0];
}

export async function readJournal(collections: Collections, id: string, after: number, limit: number): Promise<JournalEntry[]> {
  const run = await findRun(collections, id, {});
  if (run === undefined) return [];
  return (await collections.journal.find(entriesAfter(run.no, after)).sort({ _id: 1 }).limit(limit).toArray()).map(toEntry);
}

export async function readMail(collections: Collections, id: string, after: number): Promise<Mail[]> {
  const run = await findRun(collections, id, {});
  if (run === undefined) return [];
  return (
    await collections.mail
      .find({ run: run.no, seq: { $gt: after } })
      .sort({ seq: 1 })
      .toArray()
  ).map(toMail);
}

export async function readHook({ hooks }: Collections, token: string): Promise<HookRecord | undefined> {
  const found = await hooks.findOne({ _id: token });
  return found === null ? undefined : toHook(found);
}

/** The conditions are those of the index "stop". */
export async function readOverdueStops(collections: Collections, limit: number): Promise<string[]> {
  const time = await serverTime(collections);
  const found = await collections.runs
    .find(
      { stopAt: { $lte: time }, endedAt: null, $or: [{ owner: { $exists: false } }, { wakeAt: { $lte: time } }] },
      { projection: { _id: 1 } },
    )
    .sort({ stopAt: 1 })
    .limit(limit)
    .toArray();
  return found.map(({ _id }) => _id);
}
