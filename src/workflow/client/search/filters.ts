import { InvalidInputError } from "../../../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../../../core/errors/known-options.js";
import { checkName } from "../../../core/ledger/key.js";
import { oneOf } from "../../../core/ledger/options.js";
import { type RunStatus, runStatuses } from "../../../core/runs/run.js";
import type { RunFilter } from "../../../core/runs/search/filter.js";
import { type AttributeValue, attributeText, checkAttribute } from "../../../core/values/attributes.js";
import { checkStorable } from "../../../core/values/storable-text.js";

/**
 * Which runs a search finds: those that match all filters. Only some combinations are served, each by an index; others are refused. See
 * docs/reference/searches.md.
 */
export interface RunSearch {
  /** Beginning of the run id. */
  readonly idPrefix?: string;
  /** Stored name of the workflow. */
  readonly workflow?: string;
  readonly status?: RunStatus;
  /** The run that has started these runs as children. */
  readonly parentId?: string;
  /** The tenant that the runs belong to. Default: the runs of all tenants. */
  readonly scope?: string;
  /** Created at this time or later. */
  readonly createdAfter?: Date;
  /** Created before this time. */
  readonly createdBefore?: Date;
  readonly endedAfter?: Date;
  readonly endedBefore?: Date;
  /** Name of the error with which the runs have failed. */
  readonly errorName?: string;
  readonly errorCode?: string;
  /** An attribute that `start` or `setAttributes` has set to this value. */
  readonly attribute?: { readonly name: string; readonly value: AttributeValue };
  /** Only runs that an operator has to look at. */
  readonly needsPerson?: true;
}

export const searchNames: OptionNames<RunSearch> = {
  idPrefix: true,
  workflow: true,
  status: true,
  parentId: true,
  scope: true,
  createdAfter: true,
  createdBefore: true,
  endedAfter: true,
  endedBefore: true,
  errorName: true,
  errorCode: true,
  attribute: true,
  needsPerson: true,
};

const attributeNames: OptionNames<NonNullable<RunSearch["attribute"]>> = { name: true, value: true };

/** The store's form of the filters. Throws InvalidInputError for an invalid one. */
export function filterOf(where: string, search: RunSearch): RunFilter {
  const { status, scope, parentId, attribute, needsPerson } = search;
  if (status !== undefined) oneOf("status", status, runStatuses);
  if (scope !== undefined) checkName("scope", scope);
  if (needsPerson !== undefined && needsPerson !== true)
    throw new InvalidInputError("needsPerson", "must be true; leave it out to find all runs");
  return {
    ...textOf(search, "idPrefix"),
    ...textOf(search, "workflow"),
    ...textOf(search, "errorName"),
    ...textOf(search, "errorCode"),
    ...(status === undefined ? {} : { status }),
    ...(parentId === undefined ? {} : { parent: checkedText("parentId", parentId) }),
    ...(scope === undefined ? {} : { scope }),
    ...timeOf(search, "createdAfter"),
    ...timeOf(search, "createdBefore"),
    ...timeOf(search, "endedAfter"),
    ...timeOf(search, "endedBefore"),
    ...(attribute === undefined ? {} : { attribute: attributeFilter(where, attribute) }),
    ...(needsPerson === undefined ? {} : { needsPerson }),
  };
}

function textOf<Name extends "idPrefix" | "workflow" | "errorName" | "errorCode">(
  search: RunSearch,
  name: Name,
): { readonly [K in Name]?: string } {
  const text = search[name];
  return text === undefined ? {} : ({ [name]: checkedText(name, text) } as { readonly [K in Name]?: string });
}

function checkedText(name: string, text: unknown): string {
  if (typeof text !== "string" || text === "") throw new InvalidInputError(name, "must be a text that is not empty");
  checkStorable(name, text);
  return text;
}

function timeOf<Name extends "createdAfter" | "createdBefore" | "endedAfter" | "endedBefore">(
  search: RunSearch,
  name: Name,
): { readonly [K in Name]?: number } {
  const date = search[name];
  return date === undefined ? {} : ({ [name]: checkedTime(name, date) } as { readonly [K in Name]?: number });
}

export function checkedTime(name: string, date: unknown): number {
  if (!(date instanceof Date) || Number.isNaN(date.getTime())) throw new InvalidInputError(name, "must be a valid Date");
  return date.getTime();
}

function attributeFilter(where: string, attribute: NonNullable<RunSearch["attribute"]>): NonNullable<RunFilter["attribute"]> {
  if (typeof attribute !== "object" || attribute === null)
    throw new InvalidInputError("attribute", 'must be an object such as { name: "customer", value: "c-17" }');
  knownOptions(`${where}: attribute`, attribute, attributeNames);
  const { name, value } = attribute;
  if (typeof name !== "string") throw new InvalidInputError("attribute", "needs the name of an attribute");
  checkAttribute("attribute", name, value);
  return { name, text: attributeText(value) };
}

/** Throws InvalidInputError unless the limit is a whole number in the range. */
export function checkLimit(limit: unknown, max = 1000): asserts limit is number {
  if (!Number.isInteger(limit) || (limit as number) < 1 || (limit as number) > max)
    throw new InvalidInputError("limit", `must be a whole number from 1 to ${max}`);
}
