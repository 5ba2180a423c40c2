import type { Store } from "../../core/store/store.js";
import { currentStep } from "../define/context.js";

/**
 * Called before code waits for a run. In a step body it asks the step's worker to claim that run even if the worker is full:
 * the body keeps its own run in memory, and a worker full of such runs would wait forever for runs that it has no room for.
 */
export async function claimAwaitedRun(store: Store, run: string): Promise<void> {
  const step = currentStep();
  if (step?.execution.store === store) await step.claimAwaitedRun(run);
}
