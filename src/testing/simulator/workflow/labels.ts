import type { RunRecord } from "../../../core/runs/run.js";
import { matches, type RunFilter } from "../../../core/runs/search/filter.js";
import { encodeAttributes } from "../../../core/values/attributes.js";
import { setAttributes } from "../../../workflow/define/primitives.js";
import { decodeEvents } from "../../../workflow/journal/codec.js";
import { attributesAfter } from "../../../workflow/journal/history/attributes.js";
import { withoutRetried } from "../../../workflow/journal/history/retries.js";
import { PromiseBroken } from "../observer.js";
import type { KnownRun } from "./known-run.js";
import type { WorkflowSimulation } from "./simulation.js";

/** The tenant of all runs of a world. */
const scope = "simulated";

/** The labels with which a customer starts a run. */
export function labelsOf(run: string) {
  return { scope, attributes: { customer: run } } as const;
}

/** The n-th change by the code of a run: sets an attribute, or removes one. */
export function setLabels(n: number): void {
  setAttributes({ [`a${n % 3}`]: n % 4 === 3 ? null : n });
}

/** The labels of a run are those of its start and of its journal, and a search by each of them finds the run. */
export function checkLabels({ memory }: WorkflowSimulation, { id, entries }: KnownRun, record: RunRecord): void {
  const events = withoutRetried(entries.flatMap((entry) => decodeEvents(entry.events)));
  const journaled = attributesAfter({ events, before: events }, record.attributes);
  // Children, and runs that a step starts, have none at first.
  const atStart = [null, encodeAttributes(labelsOf(id).attributes)];
  if (journaled === undefined ? !atStart.includes(record.attributes) && !isFork(entries) : record.attributes !== journaled)
    throw new PromiseBroken(`${id}: has the attributes ${record.attributes}, and its journal ${journaled}`);
  if (record.scope !== scope) throw new PromiseBroken(`${id}: has the scope "${record.scope}"`);
  const labels = Object.entries(JSON.parse(record.attributes ?? "{}") as Record<string, string>);
  for (const [name, text] of labels) {
    const filter: RunFilter = { scope, attribute: { name, text } };
    if (!matches(memory.runs.get(id) as RunRecord, filter)) throw new PromiseBroken(`${id}: is not found by ${name}`);
  }
}

function isFork(entries: KnownRun["entries"]): boolean {
  return entries[0]?.by === "operator";
}
