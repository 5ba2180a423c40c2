import { type Command, InvalidArgumentError, Option } from "commander";
import { runStatuses } from "../../../core/runs/run.js";
import type { RunFilter } from "../../operations/operations.js";
import { timeOption } from "../../time-option.js";

/** The options that choose runs: those of the list, of `watch` and of bulk actions. */
export interface FilterOptions {
  readonly idPrefix?: string;
  readonly workflow?: string;
  readonly status?: NonNullable<RunFilter["status"]>;
  readonly parent?: string;
  readonly scope?: string;
  readonly createdAfter?: Date;
  readonly createdBefore?: Date;
  readonly endedAfter?: Date;
  readonly endedBefore?: Date;
  readonly errorName?: string;
  readonly errorCode?: string;
  readonly attribute?: NonNullable<RunFilter["attribute"]>;
  readonly needsPerson?: true;
}

export function addFilterOptions(command: Command): Command {
  return command
    .option("--workflow <name>", "only this workflow")
    .addOption(new Option("--status <status>", "only this status").choices(runStatuses))
    .option("--needs-person", "only runs that need an operator")
    .option("--id-prefix <text>", "only ids that begin with this text")
    .option("--parent <id>", "only children of this run")
    .option("--scope <scope>", "only this scope")
    .option("--attribute <name=value>", "only runs with this attribute", attribute)
    .option("--created-after <time>", "only runs created after this time, or this long ago: 2026-11-19T08:00Z, 2h", timeOption)
    .option("--created-before <time>", "only runs created before this time, or this long ago", timeOption)
    .option("--ended-after <time>", "only runs that ended after this time, or this long ago", timeOption)
    .option("--ended-before <time>", "only runs that ended before this time, or this long ago", timeOption)
    .option("--error-name <name>", "only runs that failed with this class of errors")
    .option("--error-code <code>", "only runs that failed with this code");
}

/** `customer=c-17`. A value is compared as JSON if it is a number, true or false; quotes make it a text: `'year="2026"'`. */
export function attribute(text: string): { readonly name: string; readonly value: string | number | boolean } {
  const at = text.indexOf("=");
  if (at < 1) throw new InvalidArgumentError("Expected name=value, such as customer=c-17.");
  return { name: text.slice(0, at), value: attributeValue(text.slice(at + 1)) };
}

function attributeValue(text: string): string | number | boolean {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "number" || typeof value === "boolean" || typeof value === "string") return value;
  } catch {
    // Not JSON: a text.
  }
  return text;
}

export function filterOf({ parent, ...options }: FilterOptions): RunFilter {
  const {
    idPrefix,
    workflow,
    status,
    scope,
    createdAfter,
    createdBefore,
    endedAfter,
    endedBefore,
    errorName,
    errorCode,
    attribute,
    needsPerson,
  } = options;
  const given = {
    idPrefix,
    workflow,
    status,
    parentId: parent,
    scope,
    createdAfter,
    createdBefore,
    endedAfter,
    endedBefore,
    errorName,
    errorCode,
    attribute,
    needsPerson,
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as RunFilter;
}
