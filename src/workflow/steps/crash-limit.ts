import { crashMaxDefault } from "../define/step-options.js";
import { lastAttemptEvent } from "../journal/event.js";
import type { AttemptLog } from "./attempt-log.js";
import { calledStep } from "./called-step.js";

/** How many deaths alone are too many for a run, and which of its steps says so. */
export interface CrashLimit {
  readonly max: number;
  readonly step: string | undefined;
}

/** The strictest `crashMax` of the steps that the last owner was in; before any step, the default. */
export function crashLimitOf(attempts: ReadonlyMap<string, AttemptLog>): CrashLimit {
  let limit: CrashLimit = { max: crashMaxDefault, step: undefined };
  for (const [id, log] of attempts) {
    const last = lastAttemptEvent(log);
    if (last?.type !== "step" || last.attempt === 0) continue;
    const { name, definition } = calledStep(id);
    const crashMax = definition?.options().crashMax ?? crashMaxDefault;
    if (limit.step === undefined || crashMax < limit.max) limit = { max: crashMax, step: name };
  }
  return limit;
}

export function crashReason(crashes: number, { max, step }: CrashLimit): string {
  const where = step === undefined ? "" : ` in step "${step}"`;
  return (
    `its process died ${crashes} times${where} while it executed this run and no other, and crashMax is ${max}. ` +
    "No code of it is executed. Mend the cause, then run.wakeUp() tries again, or run.cancel() ends it."
  );
}
