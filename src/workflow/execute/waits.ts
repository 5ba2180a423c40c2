import type { StepCall } from "../steps/step-call.js";

/** What the code of a run can wait for. */
interface WaitingRun {
  /** The code has returned: it waits for nothing, and only steps are left. */
  readonly ending: { readonly over: boolean };
  readonly calls: { readonly open: ReadonlySet<Pick<StepCall, "state" | "dueAt" | "doubt" | "definition" | "stepId" | "attempt">> };
  readonly sleeps: { next(): number | undefined };
  readonly hooks: { readonly listening: boolean };
  readonly children: { readonly waiting: boolean; readonly elsewhere: boolean };
}

export interface Waits {
  /** The next sleep or attempt. */
  readonly nextAt: number | undefined;
  /** Mail can make the run go on. */
  readonly listens: boolean;
  /** A run is awaited that sends no mail to this one: the store has to be asked again and again. */
  readonly polls: boolean;
  /** Steps whose outcome only a person can tell, in words. */
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
