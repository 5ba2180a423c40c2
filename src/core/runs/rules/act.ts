import type { Act, ActionChange, ActionRefusal, RunAnswer, RunExpectation, RunStage } from "../operation.js";
import { hasEnded, isSetAside } from "../run.js";
import { sendMail, stopAfter } from "./send.js";
import { startRun } from "./start.js";
import type { RunState, RunTable } from "./table.js";
import { childKey } from "./then.js";
import { changeStreams } from "./write.js";

type Change<Kind extends ActionChange["kind"]> = Extract<ActionChange, { kind: Kind }>;

/** Undefined: done. */
type Refusal = Extract<RunAnswer, { kind: "absent" | "ended" | "exists" | "stale" | "notAllowed" }> | undefined;

/**
 * Does an operator's action and logs it, or does nothing. An action that was sent before is found in the log, whatever the run's state is
 * now.
 */
export function act(table: RunTable, { id, log, expect, change }: Act): RunAnswer {
  const earlier = table.logged(log.id);
  if (earlier !== undefined) return { kind: "acted", entry: earlier, repeated: true };
  const refusal = change.kind === "start" ? start(table, change) : changeRun(table, id, expect, change);
  return refusal ?? { kind: "acted", entry: table.insertLog(log), repeated: false };
}

function start(table: RunTable, change: Change<"start">): Refusal {
  const answer = startRun(table, change.start);
  return answer.kind === "exists" ? answer : undefined;
}

function changeRun(table: RunTable, id: string, expect: RunExpectation, change: Exclude<ActionChange, Change<"start">>): Refusal {
  const run = table.run(id);
  if (run === undefined) return { kind: "absent" };
  const now: RunStage = { status: run.status, epoch: run.epoch, seq: table.lastEntry(id)?.seq ?? 0 };
  if (isStale(expect, { ...now, creator: run.creator })) return { kind: "stale", state: now };
  switch (change.kind) {
    case "send":
      return send(table, run, change);
    case "reopen":
      return now.seq + 1 === change.seq ? reopen(table, run, change) : { kind: "stale", state: now };
    case "remove":
      return remove(table, run);
  }
}

function isStale(expect: RunExpectation, now: Required<RunExpectation>): boolean {
  const { creator = now.creator, status = now.status, epoch = now.epoch, seq = now.seq } = expect;
  return creator !== now.creator || status !== now.status || epoch !== now.epoch || seq !== now.seq;
}

function send(table: RunTable, { id, stopAt }: RunState, { mail, token, stopAfterMs }: Change<"send">): Refusal {
  if (token !== undefined && table.hook(token)?.run !== id) return { kind: "absent" };
  const answer = sendMail(table, { ...mail, to: { run: id } });
  if (answer.kind === "ended") return answer;
  if (answer.kind !== "sent" || answer.duplicate) return refused({ because: "alreadySent" });
  if (stopAfterMs !== undefined) stopAfter(table, { id, stopAt }, stopAfterMs);
  return undefined;
}

/**
 * The next entry is in a new epoch, so that an owner that is late to learn about the end of the run, or a body that still runs, cannot
 * write after it. Nothing is written before the last check.
 */
function reopen(table: RunTable, run: RunState, change: Change<"reopen">): Refusal {
  const { seq, events, hooks, forget = [], attributes } = change;
  if (!hasEnded(run.status)) return refused({ because: "running" });
  const taken = hooks.find(({ add }) => table.hook(add) !== undefined);
  if (taken !== undefined) return refused({ because: "token", token: taken.add });
  const reported = mailToParent(table, run);
  if (reported !== undefined && "because" in reported) return refused(reported);
  const now = table.now();
  const epoch = run.epoch + 1;
  if (reported !== undefined) table.withdrawMail(reported.parent, reported.seq, `withdrawn\0${run.id}\0${epoch}`);
  for (const key of forget) {
    const consumed = table.mailSeq(run.id, key);
    if (consumed !== undefined) table.withdrawMail(run.id, consumed, `${key}\0${epoch}`);
  }
  table.insertEntry(run.id, { seq, epoch, at: now, events });
  for (const { add, about, metadata } of hooks) table.insertHook({ token: add, run: run.id, about, metadata, createdAt: now });
  changeStreams(table, run.id, change);
  const fresh = { deaths: 0, crashes: 0, alone: false, avoid: [], avoidUntil: null };
  const open = { status: "running", output: null, trouble: null, endedAt: null, expiresAt: null, unsettled: 0 } as const;
  const searched = { errorName: null, errorCode: null, ...(attributes === undefined ? {} : { attributes }) };
  table.changeRun(run.id, { ...open, ...fresh, ...searched, ...newDeadline(run, now, change), epoch, owner: null, wakeAt: now });
  return undefined;
}

/** The run gets as much time as it had at first: otherwise a run that failed late would be cancelled at once. */
function newDeadline(
  { createdAt, deadlineAt, stopAt }: RunState,
  now: number,
  { deadlineSetAt = createdAt, cleanupMs }: Change<"reopen">,
): Pick<RunState, "deadlineAt" | "stopAt"> {
  if (deadlineAt === null) return { deadlineAt: null, stopAt: null };
  const later = now + (deadlineAt - deadlineSetAt);
  return { deadlineAt: later, stopAt: later + (cleanupMs ?? Math.max(0, (stopAt ?? deadlineAt) - deadlineAt)) };
}

/**
 * The mail that has reported the end of the run to its parent, if the parent has not read it. It is withdrawn from a parent that has ended, too: that one may be
 * continued later. A parent in the memory of a worker may have read it
 * without having consumed it yet: that worker's next entry would contain a failure that is withdrawn here.
 */
function mailToParent(
  table: RunTable,
  { id, parent: name }: RunState,
): ActionRefusal | { readonly parent: string; readonly seq: number } | undefined {
  const parent = name === null ? undefined : table.run(name);
  const seq = parent === undefined ? undefined : table.mailSeq(parent.id, childKey(id));
  if (parent === undefined || seq === undefined) return undefined;
  if (seq <= parent.consumed) return { because: isSetAside(parent.status) ? "parentSetAside" : "parentTook", parent: parent.id };
  return parent.owner === null ? { parent: parent.id, seq } : { because: "parentReads", parent: parent.id };
}

/** A run with an unknown step is evidence: it stays until the step is resolved. */
function remove(table: RunTable, { id, status, unsettled }: RunState): Refusal {
  if (!hasEnded(status)) return refused({ because: "running" });
  if (unsettled > 0) return refused({ because: "unsettled" });
  table.removeRun(id);
  return undefined;
}

function refused(why: ActionRefusal): Refusal {
  return { kind: "notAllowed", why };
}
