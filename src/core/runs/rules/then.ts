import { assert } from "../../errors/errors.js";
import type { Entry, Then } from "../operation.js";
import { expiryOf } from "./expiry.js";
import { sendMail } from "./send.js";
import type { RunState, RunTable, RunUpdate } from "./table.js";

/** Applies an entry's `then` to its run. Most entries change nothing, and then the run is not read. */
export function writeThen(table: RunTable, id: string, { then, consumed, trial, stopAt, attributes }: Entry): void {
  const changesMore = trial !== undefined || stopAt !== undefined || attributes !== undefined;
  if (then.kind === "hold" && consumed === null && !changesMore) return;
  if (then.kind === "end" && !changesMore && then.trouble === undefined && table.endPlain) {
    const { status, output, unsettled = 0, error } = then;
    if (table.endPlain(id, { status, output, unsettled, consumed, ...(error && { error }) })) return;
  }
  const taken: RunUpdate = {
    ...trial,
    ...(consumed === null ? {} : { consumed }),
    ...(stopAt === undefined ? {} : { stopAt }),
    ...(attributes === undefined ? {} : { attributes }),
  };
  if (then.kind === "hold") return table.changeRun(id, taken);
  const run = table.run(id);
  assert(run !== undefined, `run ${id} has an entry`);
  if (then.kind === "release") table.changeRun(id, { ...taken, ...released(run, consumed, then, table.now()) });
  else end(table, run, taken, then);
}

/** Mail that arrived while the run had an owner did not make it due: unless it was consumed, the run is due at once. The mail of a paused run waits. */
function released(run: RunState, consumed: number | null, then: Extract<Then, { kind: "release" }>, now: number): RunUpdate {
  const wakeAt = run.mail > (then.seen ?? consumed ?? run.consumed) ? now : then.wakeAt;
  const { workers = [], until = null } = then.avoid ?? {};
  const avoided = workers.length === 0 ? { avoid: [], avoidUntil: null } : { avoid: [...workers], avoidUntil: until };
  return { owner: null, wakeAt, status: then.status, trouble: then.trouble, ...avoided };
}

/** The mail to the parent is written with the end, so that no crash can leave a parent waiting for an ended child. */
function end(
  table: RunTable,
  run: RunState,
  taken: RunUpdate,
  { status, output, unsettled = 0, trouble, error }: Extract<Then, { kind: "end" }>,
): void {
  const endedAt = table.now();
  const expiresAt = expiryOf({ endedAt, retentionMs: run.retentionMs, unsettled });
  const why = trouble === undefined ? {} : { trouble };
  const facts = error === undefined ? {} : { errorName: error.name, errorCode: error.code };
  table.changeRun(run.id, { ...taken, ...why, ...facts, owner: null, wakeAt: null, status, output, endedAt, unsettled, expiresAt });
  table.removeHooks(run.id);
  if (run.parent === null) return;
  reportEnd(table, { id: run.id, parent: run.parent, status, output }, childKey(run.id));
}

/**
 * Tells the parent how its child has ended. A parent that has failed gets the mail, too: if it is retried, it still waits for
 * children that ended meanwhile.
 */
export function reportEnd(
  table: RunTable,
  { id, parent, status, output }: { readonly id: string; readonly parent: string; readonly status: string; readonly output: string | null },
  key: string,
): void {
  const payload = JSON.stringify([status, output]);
  sendMail(table, { to: { run: parent }, kind: "child", about: id, payload, key, mayHaveFailed: true });
}

/** The mail key for the end of a child. */
export function childKey(child: string): string {
  return `child\0${child}`;
}
