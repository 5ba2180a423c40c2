import { InvalidInputError, NotKnownError, UnreachableError } from "../../core/errors/errors.js";
import { type Backoff, backoffMs } from "../../core/work/backoff.js";
import { systemClock } from "../../core/work/clock.js";
import { storeWithWorker } from "./workers.js";

const openBackoff: Backoff = { minMs: 1000, maxMs: 30_000 };

/**
 * Opens the default store of the process and starts its worker, in the background. If the database is unreachable, it retries
 * without end: otherwise a process that never uses the store itself would never execute runs.
 */
export async function beginProcessWorker(): Promise<void> {
  for (let failures = 1; ; failures++) {
    try {
      await storeWithWorker();
      return;
    } catch (error) {
      const isPassing = error instanceof UnreachableError || error instanceof NotKnownError;
      if (failures === 1) warn(error, isPassing);
      if (!isPassing) return;
      await new Promise<void>((go) => void systemClock.after(backoffMs(openBackoff, failures), go, true));
    }
  }
}

/** The message of an InvalidInputError names the option; any other error is about the store. */
function adviceOn(error: unknown): string {
  return error instanceof InvalidInputError
    ? "Correct the option and restart the process."
    : "Correct configure({ store }) or ONCEFLOW_URL, and restart the process.";
}

function warn(error: unknown, isPassing: boolean): void {
  const why = error instanceof Error ? error.message : String(error);
  const next = isPassing ? "It keeps trying in the background." : `${adviceOn(error)} This process executes no workflows until then.`;
  process.emitWarning(`the worker of this process could not start: ${why}${/[.?!]$/.test(why) ? "" : "."} ${next}`, {
    type: "OnceflowWarning",
    code: "ONCEFLOW_WORKER_NOT_STARTED",
  });
}
