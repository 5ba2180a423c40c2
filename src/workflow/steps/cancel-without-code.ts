import type { Then } from "../../core/runs/operation.js";
import { decodeError } from "../../core/values/stored-error.js";
import type { StepDefinition } from "../define/definition.js";
import { type AttemptEvent, type Event, lastAttemptEvent } from "../journal/event.js";
import type { AttemptLog } from "./attempt-log.js";
import { calledStep } from "./called-step.js";
import { mayRepeat } from "./retry-policy.js";
import { abandonedEvent } from "./verdicts.js";

interface Cancelled {
  /** The events of the run's last entry. */
  readonly events: readonly Event[];
  readonly then: Extract<Then, { readonly kind: "end" }>;
}

interface CancelRequest {
  /** Journaled events of each step call. */
  readonly attempts: ReadonlyMap<string, AttemptLog>;
  readonly now: number;
  /** The code had time for cleaning up, which is over. */
  readonly isCutOff?: boolean;
  /** Why an operator should look at the run. */
  readonly trouble?: string | undefined;
  /** Finds the step of a call. Default: the step with its name in this process. */
  readonly definitionOf?: (id: string) => StepDefinition | undefined;
}

/**
 * The last entry of a run that is cancelled without executing its code. An attempt without a verdict may have had its effect,
 * or may still have it: if its step must not run twice, its outcome is unknown.
 */
export function cancelledWithoutCode(request: CancelRequest): Cancelled {
  const { attempts, now, isCutOff = false, trouble, definitionOf = () => undefined } = request;
  const events: Event[] = [{ type: "cancel", id: "run", at: now, why: isCutOff ? "cleanup" : undefined }];
  let unsettled = 0;
  for (const [id, log] of attempts) {
    const last = lastAttemptEvent(log);
    const verdict = last && verdictOf(last, now, definitionOf(id) ?? calledStep(id).definition);
    if (verdict) events.push(verdict);
    if ((verdict ?? last)?.type === "doubt") unsettled += 1;
  }
  events.push({ type: "end", status: "cancelled", at: now, output: null });
  const then = { kind: "end", status: "cancelled", output: null, ...(unsettled > 0 ? { unsettled } : {}) } as const;
  return { events, then: trouble === undefined ? then : { ...then, trouble } };
}

const why = "the run was cancelled after the lease of its process expired";

/** Undefined if the call needs no further event. */
function verdictOf(last: AttemptEvent, at: number, definition: StepDefinition | undefined): AttemptEvent | undefined {
  const { id, attempt } = last;
  // A step that is not defined in this process is treated as one that must not run twice.
  const isSafe = definition !== undefined && (definition.tx || mayRepeat(definition.options()));
  if (last.type === "step" && attempt > 0)
    return isSafe ? abandonedEvent({ id, at, attempt, why }) : { type: "doubt", id, at, attempt, why };
  if (last.type !== "fail" || last.retryAt === null || definition?.options().effect !== "reconcile") return undefined;
  if (decodeError(last.error).name !== "NotApplied")
    return { type: "doubt", id, at, attempt, why: "the run ended before reconcile was called" };
  return undefined;
}
