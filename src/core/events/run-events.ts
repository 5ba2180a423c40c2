import type { ClaimQuery, Claims, RunAnswer, RunBackend, RunOperation, Then } from "../runs/operation.js";
import { isHeard, publish } from "./channels.js";
import type { RunEvent } from "./event.js";

/** Publishes what a commit has done to a run. Called with every answer of the store to an operation on a run. */
export function reportRunCommit(store: string, operation: RunOperation, answer: RunAnswer): void {
  if (!isHeard("run")) return;
  if (operation.verb === "start" && answer.kind === "created") {
    const { id: run, workflow, parent, first } = operation;
    publish("run", { type: "started", store, run, workflow, parent });
    if (first !== null) reportThen({ store, run, workflow }, 1, first.entry.then);
  }
  if (operation.verb === "append" && answer.kind === "appended") {
    const { id: run, workflow, epoch, entry } = operation;
    reportThen({ store, run, workflow }, epoch, entry.then);
  }
  if (operation.verb === "act" && answer.kind === "acted" && !answer.repeated) {
    const { id: run, change } = operation;
    if (change.kind === "reopen") publish("run", { type: "retried", store, run, workflow: undefined });
    if (change.kind === "remove") publish("run", { type: "removed", store, run, workflow: undefined });
    if (change.kind === "start") {
      const { workflow, parent } = change.start;
      publish("run", { type: "started", store, run, workflow, parent });
    }
  }
}

type AboutRun = Pick<RunEvent, "store" | "run" | "workflow">;

function reportThen(about: AboutRun, epoch: number, then: Then): void {
  if (then.kind === "end") publish("run", { type: "ended", ...about, epoch, status: then.status, unsettled: then.unsettled ?? 0 });
  if (then.kind !== "release") return;
  const { status, wakeAt } = then;
  if (status === "running") publish("run", { type: "rested", ...about, epoch, wakeAt });
  else if (status === "paused") publish("run", { type: "paused", ...about, epoch, wakeAt });
  else publish("run", { type: status, ...about, epoch });
}

/** `runs.claim`, which publishes what it has claimed. */
export function claimReported(store: string, runs: RunBackend): RunBackend["claim"] {
  return async (query) => {
    const claims = await runs.claim(query);
    if (claims.claimed.length > 0 && isHeard("run")) reportClaims(store, query, claims);
    return claims;
  };
}

function reportClaims(store: string, { owner }: ClaimQuery, { claimed }: Claims): void {
  for (const { run, lapsed } of claimed) {
    const { id, workflow, epoch } = run;
    publish("run", { type: "claimed", store, run: id, workflow, worker: owner, epoch, takenOver: lapsed });
  }
}
