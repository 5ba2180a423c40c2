import type { RunBackend } from "../../src/core/runs/operation.js";
import { type RunStatus, runStatuses } from "../../src/core/runs/run.js";
import { orderOf, positionOf, type RunFilter } from "../../src/core/runs/search/filter.js";
import { servedSearches } from "../../src/core/runs/search/served.js";
import { encodeAttributes } from "../../src/core/values/attributes.js";

export const scopes = ["acme", "übér 😀"] as const;

/** Stored attributes that random runs get. */
export const attributeSets = [
  encodeAttributes({ stage: "new" }),
  encodeAttributes({ stage: 'a "b" \\ 😀', n: 1 }),
  encodeAttributes({ n: 1, paid: true }),
].map((each) => each as string);

export const errorFacts = [
  { name: "TypeError", code: null },
  { name: "Übel", code: "E_1" },
] as const;

interface Choices {
  readonly workflows: readonly string[];
  readonly parents: readonly string[];
  readonly prefixes: readonly string[];
  /** Times around which runs are created and end. */
  readonly times: readonly number[];
}

type Pick = <T>(from: readonly T[]) => T;

/** A random search of the table of served combinations: what it needs, and some of what it allows. */
export function randomSearch(pick: Pick, choices: Choices): RunFilter {
  const { needs, allows } = pick(servedSearches);
  const names = [...needs, ...allows.filter(() => pick([true, false]))];
  return Object.assign({}, ...names.map((name) => filterFor(name, pick, choices))) as RunFilter;
}

function filterFor(name: string, pick: Pick, { workflows, parents, prefixes, times }: Choices): RunFilter {
  const [from, to] = [pick(times), pick(times) + pick([0, 1, 1000])];
  switch (name) {
    case "idPrefix":
      return { idPrefix: pick(prefixes) };
    case "workflow":
      return { workflow: pick(workflows) };
    case "status":
      return { status: pick<RunStatus>([...runStatuses, "failed", "completed"]) };
    case "parentId":
      return { parent: pick(parents) };
    case "scope":
      return { scope: pick(scopes) };
    case "created":
      return pick<RunFilter>([{ createdAfter: from }, { createdBefore: to }, { createdAfter: from, createdBefore: to }]);
    case "ended":
      return pick<RunFilter>([{ endedAfter: from }, { endedBefore: to }, { endedAfter: from, endedBefore: to }]);
    case "errorName":
      return { errorName: pick(errorFacts).name };
    case "errorCode":
      return { errorCode: "E_1" };
    case "attribute":
      return {
        attribute: pick([
          { name: "stage", text: '"new"' },
          { name: "stage", text: JSON.stringify('a "b" \\ 😀') },
          { name: "n", text: "1" },
        ]),
      };
    default:
      return { needsPerson: true };
  }
}

/** What a store answers to a search: page after page, the counts, and the hooks of the scope. */
export async function searched(runs: RunBackend, filter: RunFilter, limit: number): Promise<unknown> {
  const ids: string[] = [];
  const order = orderOf(filter);
  for (let last = await runs.list({ ...filter, limit }); last.length > 0; ) {
    ids.push(...last.map(({ id }) => id));
    const end = last.at(-1);
    last = end === undefined || last.length < limit ? [] : await runs.list({ ...filter, limit, after: positionOf(end, order) });
  }
  const hooks = await runs.hooks({ limit: 50, ...(filter.scope === undefined ? {} : { scope: filter.scope }) });
  const more = filter.parent === undefined ? [] : await runs.hooks({ run: filter.parent, limit: 2 });
  return { ids, counts: { ...(await runs.count(filter, 1000)) }, hooks: [...hooks, ...more] };
}
