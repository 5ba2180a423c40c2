import type { Then } from "../../core/runs/operation.js";
import type { RunRecord, WorkerRecord } from "../../core/runs/run.js";

/** How long a worker leaves a run to other workers that it could not execute itself. Its own code will not change meanwhile. */
const avoidMs = 60_000;
/** Workers that one run remembers. The oldest are forgotten first. */
const avoidMax = 100;
/** Workers that a message names. */
const namedMax = 5;

/** A worker that cannot execute a run, and why. */
export interface CannotExecute {
  /** Workers that could not execute the run before. */
  readonly avoid: readonly string[];
  /** The worker that cannot execute it now. */
  readonly owner: string;
  /** The store's time. */
  readonly now: number;
  readonly trouble: string;
}

/** Other workers are offered the run at once; those that could not execute it wait. */
export function releaseToOthers({ avoid, owner, now, trouble }: CannotExecute): Extract<Then, { kind: "release" }> {
  const workers = [...avoid.filter((id) => id !== owner), owner].slice(-avoidMax);
  return {
    kind: "release",
    wakeAt: now,
    status: "diverged",
    trouble: `${trouble} Could not go on under: ${named(workers)}.`,
    avoid: { workers, until: now + avoidMs },
  };
}

/**
 * A run that got further here and comes to rest: when it is due again, workers that could not execute it still wait for those that
 * can. Mail makes it everybody's.
 */
export function stillAvoiding(then: Then, workers: readonly string[]): Then {
  if (then.kind !== "release" || then.avoid !== undefined || then.wakeAt === null || workers.length === 0) return then;
  return { ...then, avoid: { workers, until: then.wakeAt + avoidMs } };
}

function named(workers: readonly string[]): string {
  const shown = workers.slice(-namedMax).join(", ");
  return workers.length > namedMax ? `${shown} and ${workers.length - namedMax} more` : shown;
}

/** Without workers that the store no longer lists: the list must not grow with every deployment. */
export function stillListed(avoid: readonly string[], workers: readonly WorkerRecord[]): string[] {
  const listed = new Set(workers.map(({ id }) => id));
  return avoid.filter((id) => listed.has(id));
}

/** A live worker that has the run's workflow and has not failed to execute the run. */
export function untriedWorker(
  { workflow, avoid }: Pick<RunRecord, "workflow" | "avoid">,
  workers: readonly WorkerRecord[],
  owner: string,
): string | undefined {
  return workers.find(({ id, live, workflows }) => live && id !== owner && workflows.includes(workflow) && !avoid.includes(id))?.id;
}
