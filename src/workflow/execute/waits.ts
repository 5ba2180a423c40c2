import type { StepCall } from "../steps/call/step-call.js";

/** What the code of a run can wait for. */
interface WaitingRun {
  /** The code has returned: the run waits only for steps. */
  readonly ending: { readonly over: boolean };
  readonly stopping: { readonly nextAt: number | undefined };
  readonly pausing: { readonly isPaused: boolean };
  readonly calls: {
    readonly open: ReadonlySet<Pick<StepCall, "state" | "dueAt" | "doubt" | "definition" | "stepId" | "attempt" | "isCancelled">>;
  };
  readonly sleeps: { next(): number | undefined };
  readonly hooks: { readonly listening: boolean };
  readonly children: { readonly waiting: boolean; readonly elsewhere: boolean };
}

export interface Waits {
  /** The run is paused: only `nextAt`, its deadline, counts. */
  readonly isPaused: boolean;
  /** When the next sleep ends, the next attempt is due, or the run is cancelled by time. */
  readonly nextAt: number | undefined;
  /** Mail can wake the run. */
  readonly listens: boolean;
  /** The code awaits a run that sends no mail to this one, so that the store must be polled. */
  readonly polls: boolean;
  /** Descriptions of the steps whose unknown outcome an operator must resolve. */
  readonly doubts: readonly string[];
}

export function waitsOf({ ending, stopping, pausing, calls, sleeps, hooks, children }: WaitingRun): Waits {
  const { over } = ending;
  const { isPaused } = pausing;
  const doubts: string[] = [];
  const times = [stopping.nextAt, over || isPaused ? undefined : sleeps.next()].filter((at) => at !== undefined);
  let nextAt = times.length === 0 ? undefined : Math.min(...times);
  for (const call of calls.open) {
    const { dueAt } = call;
    if (!isPaused && dueAt !== undefined && (nextAt === undefined || dueAt < nextAt)) nextAt = dueAt;
    if (call.state === "unknown" && !call.isCancelled)
      doubts.push(`step "${call.definition.name}" (${call.stepId}), attempt ${call.attempt}: ${call.doubt}`);
  }
  return { isPaused, nextAt, listens: !over && (hooks.listening || children.waiting), polls: !over && children.elsewhere, doubts };
}
