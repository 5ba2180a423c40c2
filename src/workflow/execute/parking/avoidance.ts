import type { Then } from "../../../core/runs/operation.js";
import type { RunRecord, WorkerRecord } from "../../../core/runs/run.js";

/** How long a worker does not claim a run that it could not execute. Its code will not change in that time. */
const avoidMs = 60_000;
/** Maximum number of workers that a run remembers. The oldest are dropped first. */
const avoidMax = 100;
/** Maximum number of workers that a message names. */
const namedMax = 5;

/** A worker that cannot execute a run, and why. */
export interface CannotExecute {
  /** Workers that could not execute the run before. */
  readonly avoid: readonly string[];
  /** The worker that cannot execute the run now. */
  readonly owner: string;
  /** Time of the store. */
  readonly now: number;
  readonly trouble: string;
}

/** Releases the run: other workers can claim it immediately; those that could not execute it wait. */
export function releaseToOthers({ avoid, owner, now, trouble }: CannotExecute): Extract<Then, { kind: "release" }> {
  const workers = [...avoid.filter((id) => id !== owner), owner].slice(-avoidMax);
  return {
    kind: "release",
    wakeAt: now,
    status: "diverged",
    trouble: `${trouble} Workers that could not execute the run: ${named(workers)}.`,
    avoid: { workers, until: now + avoidMs },
  };
}

/**
 * For a run that made progress here and rests: when it is due again, workers that could not execute it still wait for those
 * that can. Mail lets every worker claim it.
 */
export function stillAvoiding(then: Then, workers: readonly string[]): Then {
  if (then.kind !== "release" || then.avoid !== undefined || then.wakeAt === null || workers.length === 0) return then;
  return { ...then, avoid: { workers, until: then.wakeAt + avoidMs } };
}

function named(workers: readonly string[]): string {
  const shown = workers.slice(-namedMax).join(", ");
  return workers.length > namedMax ? `${shown} and ${workers.length - namedMax} more` : shown;
}

/** The list without workers that the store no longer lists, so that it does not grow with every deployment. */
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
