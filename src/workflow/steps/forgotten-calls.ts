import { siteOf } from "../define/call-site.js";
import type { WatchedCall } from "./watched-call.js";

/** Places that were warned about: a workflow that is started a thousand times has one mistake, not a thousand. */
const warned = new Set<string>();
const warnedMax = 1000;

interface Forgetful {
  readonly id: string;
  readonly workflow: { readonly name: string };
}

/** Calls of a step in a workflow whose place is captured, which costs a few microseconds each: code that forgets an await forgets it at once. */
const capturedMax = 100;
const captured = new WeakMap<object, Map<string, number>>();

/** Whether the place of this call should be captured, in case the code never looks at its promise. */
export function mayBeForgotten(workflow: object, step: string): boolean {
  const counts = captured.get(workflow) ?? new Map<string, number>();
  captured.set(workflow, counts);
  const count = counts.get(step) ?? 0;
  if (count < capturedMax) counts.set(step, count + 1);
  return count < capturedMax;
}

/** A call was forgotten after all: from now on its place is captured. */
function captureFromNowOn(workflow: object, step: string): void {
  captured.get(workflow)?.set(step, Number.NEGATIVE_INFINITY);
}

/** Calls of steps whose promise the code never looked at: it has most probably forgotten an `await`. */
export function warnOfForgotten({ id, workflow }: Forgetful, calls: readonly WatchedCall[]): void {
  for (const { definition, site } of calls) {
    if (site === undefined) captureFromNowOn(workflow, definition.name);
    const where = site === undefined ? "a place that is captured from now on" : siteOf(site);
    const place = `${workflow.name}\0${definition.name}\0${where}`;
    if (warned.has(place) || warned.size >= warnedMax) continue;
    warned.add(place);
    process.emitWarning(
      `run "${id}" of workflow "${workflow.name}" returned without awaiting step "${definition.name}", called at ${where}. ` +
        "The run waits for the step, and fails if the step fails. Await the call; or, if its outcome does not matter, " +
        "write .catch(() => {}) behind it: then the run ends without waiting for the step.",
      { type: "OnceflowWarning", code: "ONCEFLOW_STEP_NOT_AWAITED" },
    );
  }
}
