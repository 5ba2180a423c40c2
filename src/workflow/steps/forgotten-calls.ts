import { siteOf } from "../define/call-site.js";
import type { WatchedCall } from "./watched-call.js";

/** Call sites that were warned about: a workflow that is started a thousand times causes one warning. */
const warned = new Set<string>();
const warnedMax = 1000;

interface ReturnedRun {
  readonly id: string;
  readonly workflow: { readonly name: string };
}

/** Number of calls per step and workflow whose call site is captured, which costs a few microseconds each. A forgotten `await` shows in the first calls. */
const capturedMax = 100;
const captured = new WeakMap<object, Map<string, number>>();

/** Whether to capture the call site, in case the code never observes the promise. */
export function mayBeForgotten(workflow: object, step: string): boolean {
  const counts = captured.get(workflow) ?? new Map<string, number>();
  captured.set(workflow, counts);
  const count = counts.get(step) ?? 0;
  if (count < capturedMax) counts.set(step, count + 1);
  return count < capturedMax;
}

/** A later call was forgotten after all: capture the call sites of this step from now on. */
function captureFromNowOn(workflow: object, step: string): void {
  captured.get(workflow)?.set(step, Number.NEGATIVE_INFINITY);
}

/** Warns about step calls whose promise the code never observed, most probably because of a missing `await`. */
export function warnOfForgotten({ id, workflow }: ReturnedRun, calls: readonly WatchedCall[]): void {
  for (const { definition, site } of calls) {
    if (site === undefined) captureFromNowOn(workflow, definition.name);
    const where = site === undefined ? "an unknown location (the next warning will have it)" : siteOf(site);
    const callSite = `${workflow.name}\0${definition.name}\0${where}`;
    if (warned.has(callSite) || warned.size >= warnedMax) continue;
    warned.add(callSite);
    process.emitWarning(
      `run "${id}" of workflow "${workflow.name}" returned without awaiting step "${definition.name}", called at ${where}. ` +
        "The run waits for the step, and fails if the step fails. Await the call; or, if its outcome does not matter, " +
        "append .catch(() => {}) to the call: then the run ends without waiting for the step.",
      { type: "OnceflowWarning", code: "ONCEFLOW_STEP_NOT_AWAITED" },
    );
  }
}
