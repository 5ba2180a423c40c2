import type { StepCall } from "../steps/step-call.js";

/** What the code of a run can wait for. */
interface WaitingRun {
  /** The code has returned: the run waits only for steps. */
  readonly ending: { readonly over: boolean };
  readonly calls: { readonly open: ReadonlySet<Pick<StepCall, "state" | "dueAt" | "doubt" | "definition" | "stepId" | "attempt">> };
  readonly sleeps: { next(): number | undefined };
  readonly hooks: { readonly listening: boolean };
  readonly children: { readonly waiting: boolean; readonly elsewhere: boolean };
}

export interface Waits {
  /** When the next sleep ends or the next attempt is due. */
  readonly nextAt: number | undefined;
  /** Mail can wake the run. */
  readonly listens: boolean;
  /** The code awaits a run that sends no mail to this one, so that the store must be polled. */
  readonly polls: boolean;
  /** Descriptions of the steps whose unknown outcome an operator must resolve. */
  readonly doubts: readonly string[];
}

export function waitsOf({ ending, calls, sleeps, hooks, children }: WaitingRun): Waits {
  const { over } = ending;
  const doubts: string[] = [];
  let nextAt = over ? undefined : sleeps.next();
  for (const call of calls.open) {
    const { dueAt } = call;
    if (dueAt !== undefined && (nextAt === undefined || dueAt < nextAt)) nextAt = dueAt;
    if (call.state === "unknown") doubts.push(`step "${call.definition.name}" (${call.stepId}), attempt ${call.attempt}: ${call.doubt}`);
  }
  return { nextAt, listens: !over && (hooks.listening || children.waiting), polls: !over && children.elsewhere, doubts };
}
