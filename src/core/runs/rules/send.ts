import type { RunAnswer, Send } from "../operation.js";
import { hasEnded, wakesRun } from "../run.js";
import type { RunState, RunTable, RunUpdate } from "./table.js";

interface SentMail extends Omit<Send, "verb"> {
  /** A run that has failed gets the mail, too, and reads it if it is retried. */
  readonly mayHaveFailed?: boolean;
}

/** Delivers mail to a run, or to the run with a hook. Mail with a known key was delivered before, even if the run has ended since. */
export function sendMail(table: RunTable, { to, kind, about, payload, key, mayHaveFailed = false }: SentMail): RunAnswer {
  const hook = "token" in to ? table.hook(to.token) : undefined;
  const id = "token" in to ? hook?.run : to.run;
  const run = id === undefined ? undefined : table.run(id);
  if (run === undefined) return { kind: "absent" };
  if (hasEnded(run.status) && !(mayHaveFailed && run.status === "failed"))
    return table.hasMail(run.id, key) ? { kind: "sent", run: run.id, duplicate: true } : { kind: "ended", run: run.id };
  const now = table.now();
  const seq = run.mail + 1;
  if (!table.insertMail(run.id, key, { seq, kind, about: hook?.about ?? about, payload, at: now }))
    return { kind: "sent", run: run.id, duplicate: true };
  table.changeRun(run.id, { mail: seq, ...(run.owner === null && !hasEnded(run.status) && wakesRun(run, kind) ? woken(run, now) : {}) });
  return { kind: "sent", run: run.id, duplicate: false };
}

/** After this time any worker may end the run without its code. An earlier time stays. */
export function stopAfter(table: RunTable, { id, stopAt }: Pick<RunState, "id" | "stopAt">, ms: number): void {
  table.changeRun(id, { stopAt: Math.min(stopAt ?? Number.POSITIVE_INFINITY, table.now() + ms) });
}

/**
 * Makes a run without an owner due for every worker; if it was due already, it keeps its time. (An owner sees the mail at its next
 * renewal.)
 */
function woken({ wakeAt }: RunState, now: number): RunUpdate {
  return { wakeAt: Math.min(wakeAt ?? now, now), avoid: [], avoidUntil: null };
}
