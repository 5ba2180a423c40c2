import { InvalidInputError } from "../../errors/errors.js";
import type { RunFilter } from "./filter.js";

/** The filters, as callers name them. `created` and `ended` are windows of time. */
const filterNames = [
  "idPrefix",
  "workflow",
  "status",
  "parentId",
  "scope",
  "created",
  "ended",
  "errorName",
  "errorCode",
  "attribute",
  "needsPerson",
] as const;
type FilterName = (typeof filterNames)[number];

/** The access path of a search: each store has an index for it, and another one for searches within a scope. */
export type SearchPath = "listed" | "ended" | "id" | "parent" | "errorName" | "errorCode" | "attribute" | "person";

/** Filters that an index serves together. */
export interface ServedSearch {
  readonly path: SearchPath;
  /** Filters that must be given. */
  readonly needs: readonly FilterName[];
  /** Filters that can be added. */
  readonly allows: readonly FilterName[];
}

/**
 * Every combination that a search can have. Each is served by an index of every store, so that a page costs the same however many runs there are. A
 * new combination needs an index in every store, a row here, and a case in the contract suite.
 */
export const servedSearches: readonly ServedSearch[] = [
  { path: "listed", needs: [], allows: ["workflow", "status", "scope", "created"] },
  { path: "ended", needs: ["ended"], allows: ["workflow", "status", "scope"] },
  { path: "id", needs: ["idPrefix"], allows: ["scope"] },
  { path: "parent", needs: ["parentId"], allows: ["scope", "created"] },
  { path: "errorName", needs: ["errorName"], allows: ["scope", "created"] },
  { path: "errorCode", needs: ["errorCode"], allows: ["scope", "created"] },
  { path: "attribute", needs: ["attribute"], allows: ["scope", "created"] },
  { path: "person", needs: ["needsPerson"], allows: ["scope", "created"] },
];

/** How the filters are served. Throws InvalidInputError for a combination without an index: it would read every run. */
export function pathOf(filter: RunFilter): SearchPath {
  const given = filterNames.filter((name) => isGiven(filter, name));
  const served = servedSearches.find(({ needs, allows }) => {
    return needs.every((name) => given.includes(name)) && given.every((name) => needs.includes(name) || allows.includes(name));
  });
  if (served === undefined) throw new InvalidInputError("filters", adviceOn(given));
  if (filter.scope === "")
    throw new InvalidInputError(
      "scope",
      'is "", and runs without a scope have no index; leave the filter out to find the runs of all scopes',
    );
  return served.path;
}

function isGiven(filter: RunFilter, name: FilterName): boolean {
  switch (name) {
    case "parentId":
      return filter.parent !== undefined;
    case "created":
      return filter.createdAfter !== undefined || filter.createdBefore !== undefined;
    case "ended":
      return filter.endedAfter !== undefined || filter.endedBefore !== undefined;
    default:
      return filter[name] !== undefined;
  }
}

/** Names the served combinations that have most of the given filters. */
function adviceOn(given: readonly FilterName[]): string {
  const shared = ({ needs, allows }: ServedSearch) => given.filter((name) => needs.includes(name) || allows.includes(name)).length;
  const isStarted = ({ needs }: ServedSearch) => needs.every((name) => given.includes(name));
  const candidates = servedSearches.filter(isStarted);
  const most = Math.max(...candidates.map(shared));
  const nearest = candidates.filter((each) => shared(each) === most || each.path !== "listed").map(describeServed);
  return `have a combination that no index serves: ${given.join(", ")}. Nearest that are served: ${nearest.join("; ")}`;
}

function describeServed({ needs, allows }: ServedSearch): string {
  const more = `optionally with ${allows.join(", ")}`;
  return needs.length === 0 ? more.replace("optionally with", "any of") : `${needs.join(", ")}, ${more}`;
}
