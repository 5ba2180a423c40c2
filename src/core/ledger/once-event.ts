import { GoneError, MismatchError, RunningError } from "../errors/errors.js";
import { publish } from "../events/channels.js";
import type { OnceAnswer, OnceEvent } from "../events/event.js";
import type { Store } from "../store/store.js";
import { isReplayed } from "../values/stored-error.js";
import type { OnceResult } from "./once-result.js";
import type { RecordId } from "./record.js";
import type { Handler } from "./run-attempt.js";

interface ReportedCall<Value> extends RecordId {
  readonly store: Pick<Store, "name">;
  readonly handler: Handler<Value>;
  readonly run: (handler: Handler<Value>) => Promise<OnceResult<Value>>;
}

/** Runs a call of `once` and publishes its answer. Only used while the channel has a subscriber. */
export async function reportOnce<Value>({ store, scope, key, handler, run }: ReportedCall<Value>): Promise<OnceResult<Value>> {
  const calledAt = performance.now();
  let thrown: { readonly error: unknown; readonly attempt: number } | undefined;
  const watched: Handler<Value> = async (attempt) => {
    try {
      return await handler(attempt);
    } catch (error) {
      thrown = { error, attempt: attempt.number };
      throw error;
    }
  };
  const report = (answer: OnceAnswer, attempt: number | undefined) =>
    publish("once", { store: store.name, scope, key, answer, attempt, ms: performance.now() - calledAt } satisfies OnceEvent);
  try {
    const result = await run(watched);
    report(result.status, result.attempt);
    return result;
  } catch (error) {
    if (thrown !== undefined && thrown.error === error) report("threw", thrown.attempt);
    else report(answerOf(error), attemptOf(error));
    throw error;
  }
}

/** Of an error that the handler did not throw. */
function answerOf(error: unknown): OnceAnswer {
  // First: a stored error may be an instance of any class below.
  if (isReplayed(error)) return "replayed";
  if (error instanceof MismatchError) return "mismatch";
  if (error instanceof GoneError) return "gone";
  return error instanceof RunningError ? "running" : "error";
}

function attemptOf(error: unknown): number | undefined {
  if (isReplayed(error) || typeof error !== "object" || error === null || !("attempt" in error)) return undefined;
  return typeof error.attempt === "number" ? error.attempt : undefined;
}
