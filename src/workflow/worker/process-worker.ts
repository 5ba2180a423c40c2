import { InvalidInputError, NotKnownError, UnreachableError } from "../../core/errors/errors.js";
import { type Backoff, backoffMs } from "../../core/work/backoff.js";
import { systemClock } from "../../core/work/clock.js";
import { storeWithWorker } from "./workers.js";

const openBackoff: Backoff = { minMs: 1000, maxMs: 30_000 };

/**
 * Opens the process's own store and begins its worker, in the background. A database that cannot be reached is tried again until it
 * can: the process may never use the store otherwise, and its runs would stand still.
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

/** Options of a step and of the worker are named by the message; else it is the store. */
function adviceOn(error: unknown): string {
  return error instanceof InvalidInputError
    ? "Correct that, and start the process again."
    : "Correct the store of configure({ store }), or ONCEFLOW_URL, and start the process again.";
}

function warn(error: unknown, isPassing: boolean): void {
  const why = error instanceof Error ? error.message : String(error);
  const next = isPassing ? "It is tried again in the background." : `${adviceOn(error)} This process executes no workflow until then.`;
  process.emitWarning(`the worker of this process could not begin: ${why}${/[.?!]$/.test(why) ? "" : "."} ${next}`, {
    type: "OnceflowWarning",
    code: "ONCEFLOW_WORKER_NOT_STARTED",
  });
}
