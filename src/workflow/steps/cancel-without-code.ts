import type { Then } from "../../core/runs/operation.js";
import { decodeError } from "../../core/values/stored-error.js";
import type { StepDefinition } from "../define/definition.js";
import { type AttemptEvent, type Claim, type Event, lastAttemptEvent } from "../journal/event.js";
import { calledStep } from "./called-step.js";
import { mayRepeat } from "./retry-policy.js";
import { abandonedEvent } from "./verdicts.js";

interface Cancelled {
  /** The events of the run's last entry. */
  readonly events: readonly Event[];
  readonly then: Extract<Then, { readonly kind: "end" }>;
}

interface LeftOpen {
  /** What the journal says of each call. */
  readonly attempts: ReadonlyMap<string, readonly (AttemptEvent | Claim)[]>;
  readonly now: number;
  /** Which step it is a call of. Default: the one that is defined under its name in this process. */
  readonly definitionOf?: (id: string) => StepDefinition | undefined;
}

/**
 * How a run ends that is cancelled without its code being executed. An attempt that has no verdict may have had its effect, or
 * have it yet: if its step may not run twice, it is in doubt.
 */
export function cancelledWithoutCode({ attempts, now, definitionOf = () => undefined }: LeftOpen): Cancelled {
  const events: Event[] = [{ type: "cancel", id: "run", at: now }];
  let unsettled = 0;
  for (const [id, log] of attempts) {
    const last = lastAttemptEvent(log);
    const verdict = last && verdictOf(last, now, definitionOf(id) ?? calledStep(id).definition);
    if (verdict) events.push(verdict);
    if ((verdict ?? last)?.type === "doubt") unsettled += 1;
  }
  events.push({ type: "end", status: "cancelled", at: now, output: null });
  return { events, then: { kind: "end", status: "cancelled", output: null, ...(unsettled > 0 ? { unsettled } : {}) } };
}

const why = "the run was cancelled after its process fell silent";

/** Undefined: the journal has said enough. */
function verdictOf(last: AttemptEvent, at: number, definition: StepDefinition | undefined): AttemptEvent | undefined {
  const { id, attempt } = last;
  // A step that is not defined here counts as one that may not run twice.
  const isSafe = definition !== undefined && (definition.tx || mayRepeat(definition.options()));
  if (last.type === "step" && attempt > 0)
    return isSafe ? abandonedEvent({ id, at, attempt, why }) : { type: "doubt", id, at, attempt, why };
  if (last.type !== "fail" || last.retryAt === null || definition?.options().effect !== "reconcile") return undefined;
  if (decodeError(last.error).name !== "NotApplied")
    return { type: "doubt", id, at, attempt, why: "the run ended before the other side was asked" };
  return undefined;
}
