import { assert } from "../../../core/errors/errors.js";
import { conflictsOf } from "../../../core/runs/hook-conflicts.js";
import type { Append, AppendLate, Entry, RunAnswer, StartRun } from "../../../core/runs/operation.js";
import type { HookRecord, RunRecord } from "../../../core/runs/run.js";
import { arrayLiteral, type Scalar } from "../parameters/columns.js";
import { chunkValues } from "./chunks.js";
import { changeValues, startValues } from "./row.js";
import { childMail, mailValues } from "./send.js";
import type { WriteStatement } from "./write-statements.js";

/** Runs one of the statements on the transaction's connection, and reads the text that it answers with. */
export type Ask = <T>(statement: WriteStatement, values: readonly (Scalar | Buffer)[]) => Promise<T | undefined>;

/** What is answered when the run exists already: its own creator is sending again, or somebody else has the id. */
export async function findStarted(ask: Ask, { id, creator, first }: StartRun): Promise<RunAnswer | undefined> {
  const found = await ask<RunRecord & { readonly now: number }>("read", [id]);
  if (found === undefined) return undefined;
  const { now, ...run } = found;
  if (run.creator !== creator) return { kind: "exists", run };
  return { kind: "created", now, conflicts: await conflicts(ask, id, first?.entry) };
}

/** Starts a run inside an open transaction, with whatever its first entry says. "again": it was purged under our eyes. */
export async function startInside(ask: Ask, start: StartRun, at: number | null = null): Promise<RunAnswer | "again"> {
  const { id, first } = start;
  const made = await ask<{ now: number; created: number }>("create", [...startValues(start), at]);
  assert(made !== undefined, "a start is answered");
  if (made.created === 0) return (await findStarted(ask, start)) ?? "again";
  const { now } = made;
  if (start.chunks) await ask("putChunks", chunkValues(id, null, start.chunks));
  if (first) {
    const append: Append = { verb: "append", id, epoch: 1, seq: 1, entry: first.entry };
    if (first.entry.events !== null) await writeEntry(ask, append, now);
    await apply(ask, append, now);
  }
  return { kind: "created", now, conflicts: await conflicts(ask, id, first?.entry) };
}

/** Appends inside an open transaction. When it answers "overtaken", nothing was written. */
export async function appendInside(ask: Ask, append: Append): Promise<RunAnswer> {
  const { id, epoch, seq, entry } = append;
  const { events } = entry;
  const run = await ask<{ now: number; epoch: number; owned: boolean; ended: boolean }>("lock", [id, entry.then.kind === "end"]);
  if (run === undefined) return { kind: "overtaken" };
  const { now } = run;
  if (events === null) {
    if (run.ended || run.epoch !== epoch || !run.owned) return { kind: "overtaken" };
  } else if (run.ended || !(await writeEntry(ask, append, now))) {
    // What stands there is our own: the reply to it was lost.
    const writer = await ask<{ epoch: number }>("writer", [id, seq]);
    if (writer?.epoch !== epoch) return { kind: "overtaken" };
    return { kind: "appended", now, conflicts: await conflicts(ask, id, entry) };
  }
  await apply(ask, append, now);
  return { kind: "appended", now, conflicts: await conflicts(ask, id, entry) };
}

/**
 * Appends to a run that has ended, inside an open transaction. Under the lock of the run, of several writers the first
 * one gets the place; another one is recognised by its events when it sends again.
 */
export async function appendLateInside(ask: Ask, { id, epoch, seq, events, unsettled }: AppendLate): Promise<RunAnswer> {
  const run = await ask<{ now: number; epoch: number; ended: boolean }>("lock", [id, false]);
  if (run === undefined || !run.ended || run.epoch !== epoch) return { kind: "overtaken" };
  const appended: RunAnswer = { kind: "appended", now: run.now, conflicts: [] };
  const there = await ask<{ events: string | null }>("events", [id, seq]);
  if (there?.events === events) return appended;
  if ((await ask<{ written: number }>("late", [id, seq, epoch, run.now, events]))?.written !== 1) return { kind: "overtaken" };
  await ask("unsettled", [id, unsettled]);
  return appended;
}

async function writeEntry(ask: Ask, { id, seq, epoch, entry }: Append, now: number): Promise<boolean> {
  const values = [id, seq, epoch, now, entry.events, entry.then.kind === "end"];
  return (await ask<{ written: number }>("write", values))?.written === 1;
}

/** Everything that goes with an entry, in the order in which the entry says it. */
async function apply(ask: Ask, append: Append, now: number): Promise<void> {
  const { id, epoch, entry } = append;
  const { events, hooks, children, consumed, then, trial } = entry;
  for (const change of hooks) {
    if ("add" in change) await ask("addHook", [id, change.add, change.about, change.metadata, now]);
    else await ask("dropHook", [id, change.drop]);
  }
  for (const child of children) while ((await startInside(ask, child, now)) === "again");
  for (const { writer, attempt } of entry.voids ?? []) await ask("voidChunks", [id, writer, attempt]);
  if (entry.chunks) await ask("putChunks", chunkValues(id, null, entry.chunks));
  if (trial) await ask("trial", [id, trial.deaths, trial.crashes, trial.alone]);
  if (then.kind === "hold" && consumed === null && hooks.length === 0) return;
  // Whoever appends at this very moment is the earlier one: the end then comes after its entry.
  if (then.kind === "end" && events === null) while ((await ask<{ written: number }>("close", [id, epoch, now]))?.written === 0);
  const run = await ask<{ parent: string | null }>("change", [...changeValues(append), hooks.length, now]);
  if (then.kind === "release" && then.avoid?.workers.length) await ask("avoid", [id, arrayLiteral(then.avoid.workers), then.avoid.until]);
  if (then.kind === "end" && then.unsettled) await ask("unsettled", [id, then.unsettled]);
  if (then.kind !== "end" || run === undefined || run.parent === null) return;
  // Ended in the same transaction: of parent and child, nobody ever sees one without the other.
  await ask("mail", mailValues(childMail(run.parent, id, JSON.stringify([then.status, then.output])), now));
}

/** The tokens that the entry wanted and did not get, by the hooks as they are now. */
async function conflicts(ask: Ask, id: string, entry: Entry | undefined): Promise<readonly string[]> {
  const wanted = (entry?.hooks ?? []).flatMap((change) => ("add" in change ? [change.add] : []));
  if (wanted.length === 0) return [];
  const found = await ask<{ hooks: Pick<HookRecord, "token" | "run" | "about">[] | null }>("hooks", [arrayLiteral(wanted)]);
  const hooks = new Map((found?.hooks ?? []).map((hook) => [hook.token, hook]));
  return conflictsOf(entry, id, (token) => hooks.get(token));
}
