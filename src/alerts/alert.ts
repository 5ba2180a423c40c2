import type { RunRecord } from "../core/runs/run.js";
import { sha256 } from "../core/values/canonical.js";

export const alertStatuses = ["failed", "unknown", "diverged", "parked"] as const;

/** `failed`: the run has ended with an error. `unknown`: the outcome of a step is not known. `diverged`, `parked`: the run was set aside. */
export type AlertStatus = (typeof alertStatuses)[number];

/** An alert about one run. It contains no input, result or error message. */
export interface RunAlert {
  /** The same at every delivery of this alert. Another time that the run gets the status is another alert. */
  readonly id: string;
  readonly type: "onceflow.run";
  readonly status: AlertStatus;
  readonly run: string;
  /** Stored name of the workflow. */
  readonly workflow: string;
  readonly parent?: string;
  /** The tenant that the run belongs to. */
  readonly scope?: string;
  /** Name and code of the error of a failed run. */
  readonly error?: { readonly name: string; readonly code?: string };
  /** When the run was created. ISO 8601. */
  readonly createdAt: string;
  /** When the run ended, if it failed. ISO 8601. */
  readonly endedAt?: string;
}

/**
 * The id of an alert, from what is the same at every look at the run: a failure has the time of its end, and every way out of the other statuses
 * consumes mail or changes the cause. It has no dots, because a signed id must not.
 */
export function alertId(run: RunRecord): string {
  const { id, creator, status, endedAt, consumed, trouble } = run;
  const episode = status === "failed" ? endedAt : [consumed, causeOf(trouble)];
  return `run-${status}-${sha256(JSON.stringify([id, creator, status, episode])).slice(0, 32)}`;
}

/** The list of workers that could not execute a diverged run grows with every worker that tries it. */
function causeOf(trouble: string | null): string {
  return trouble?.split(" Workers that could not execute the run: ")[0] ?? "";
}

export function alertOf(run: RunRecord, id: string): RunAlert {
  const { workflow, parent, scope, errorName, errorCode, createdAt, endedAt } = run;
  return {
    id,
    type: "onceflow.run",
    status: run.status as AlertStatus,
    run: run.id,
    workflow,
    ...(parent === null ? {} : { parent }),
    ...(scope === "" ? {} : { scope }),
    ...(errorName === null ? {} : { error: { name: errorName, ...(errorCode === null ? {} : { code: errorCode }) } }),
    createdAt: new Date(createdAt).toISOString(),
    ...(endedAt === null ? {} : { endedAt: new Date(endedAt).toISOString() }),
  };
}
