import { assert } from "../../errors/errors.js";
import type { Entry, OutgoingMail, RunAnswer, StartRun } from "../operation.js";
import { hasEnded, type RunRecord } from "../run.js";
import { changeHooks, conflictsAfter } from "./hooks.js";
import { sendMail, stopAfter } from "./send.js";
import type { RunTable } from "./table.js";
import { childKey, reportEnd, writeThen } from "./then.js";
import { changeStreams, putChunks } from "./write.js";

/** Creates a run. A creator that sends its start again after a lost reply finds its own run; any other creator gets the answer "exists". */
export function startRun(table: RunTable, start: StartRun): RunAnswer {
  const { id, creator, first } = start;
  const now = table.now();
  const created = (): RunAnswer => ({ kind: "created", now, conflicts: conflictsAfter(table, id, first?.entry) });
  if (!table.insertRun(newRun(start, now))) {
    const run = table.record(id);
    assert(run !== undefined, `run ${id} exists`);
    return run.creator === creator ? created() : { kind: "exists", run };
  }
  if (start.chunks) putChunks(table, id, start.chunks);
  if (first) {
    const { entry } = first;
    if (entry.events !== null) table.insertEntry(id, { seq: 1, epoch: 1, at: now, events: entry.events });
    followEntry(table, id, entry);
  }
  return created();
}

function newRun(start: StartRun, now: number): RunRecord {
  const {
    id,
    workflow,
    input,
    fingerprint,
    parent,
    creator,
    retentionMs,
    first,
    timeoutMs,
    cleanupMs = 0,
    scope = "",
    attributes = null,
  } = start;
  const deadlineAt = timeoutMs === undefined ? null : now + timeoutMs;
  return {
    id,
    workflow,
    input,
    fingerprint,
    parent,
    creator,
    retentionMs,
    status: first ? "running" : "pending",
    output: null,
    trouble: null,
    owner: first?.owner ?? null,
    epoch: first ? 1 : 0,
    wakeAt: first ? now + first.leaseMs : now,
    mail: 0,
    consumed: 0,
    createdAt: now,
    startedAt: first ? now : null,
    endedAt: null,
    deaths: 0,
    crashes: 0,
    alone: false,
    avoid: [],
    avoidUntil: null,
    unsettled: 0,
    deadlineAt,
    stopAt: deadlineAt === null ? null : deadlineAt + cleanupMs,
    scope,
    attributes,
    errorName: null,
    errorCode: null,
  };
}

/**
 * A run with the id of the child may have ended before: that of an earlier run with the parent's id, which was deleted, or one whose request a retry has
 * renewed. Then no end will report it, unless the mail with that is still to be read: it is not reported twice, because a retry of the child withdraws one mail.
 * `consumed`: what the parent has read with this entry.
 */
function startChild(
  table: RunTable,
  { parent, consumed }: { readonly parent: string; readonly consumed: number | null },
  child: StartRun,
): void {
  const answer = startRun(table, child);
  if (answer.kind !== "exists" || answer.run.parent !== parent || !hasEnded(answer.run.status)) return;
  const [first, again] = childKeys(child);
  const sent = table.mailSeq(parent, first);
  const isUnread = sent !== undefined && sent > Math.max(table.run(parent)?.consumed ?? 0, consumed ?? 0);
  if (!isUnread) reportEnd(table, { ...answer.run, parent }, sent === undefined ? first : again);
}

/** Keys of the mail that can report the end of a child: of its end, and if that was read before, when it is started again. */
export function childKeys({ id, creator }: Pick<StartRun, "id" | "creator">): readonly [first: string, again: string] {
  return [childKey(id), `${childKey(id)}\0${creator}`];
}

function sendOut(table: RunTable, mail: OutgoingMail): void {
  const answer = sendMail(table, mail);
  const run = answer.kind === "sent" && !answer.duplicate ? table.run(mail.to.run) : undefined;
  if (run !== undefined && mail.stopAfterMs !== undefined) stopAfter(table, run, mail.stopAfterMs);
}

/**
 * Writes everything that belongs to an entry, after its fence has passed. The run itself comes last: a child that ends at once has sent
 * its mail by then, and a release must see that mail. In this file because the two functions call each other: an entry starts children, and
 * a start may have a first entry.
 */
export function followEntry(table: RunTable, id: string, entry: Entry): void {
  changeHooks(table, id, entry.hooks);
  for (const child of entry.children) startChild(table, { parent: id, consumed: entry.consumed }, child);
  changeStreams(table, id, entry);
  for (const mail of entry.outgoing ?? []) sendOut(table, mail);
  writeThen(table, id, entry);
}
