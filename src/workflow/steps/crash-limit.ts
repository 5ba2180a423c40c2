import { crashMaxDefault } from "../define/step-options.js";
import { lastAttemptEvent } from "../journal/event.js";
import type { AttemptLog } from "./attempt-log.js";
import { calledStep } from "./called-step.js";

/** Maximum number of crashes of a run that was executed alone, and the step whose `crashMax` it is. */
export interface CrashLimit {
  readonly max: number;
  readonly step: string | undefined;
}

/** The lowest `crashMax` of the steps that were running when the last owner died; the default if there was none. */
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
    `the process died ${crashes} times${where} while it executed only this run, and crashMax is ${max}. ` +
    "The run is not executed any more. Fix the cause, then call run.wakeUp() to retry the run, or run.terminate() to end it."
  );
}
