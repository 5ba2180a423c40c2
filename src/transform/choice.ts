import { InvalidInputError } from "../core/errors/errors.js";
import { type Package, packageOf } from "./load/package-of.js";
import { isOwnFile, isPackageFile } from "./load/project.js";

/** Which files are transformed: a regular expression is matched with the path of a file, a text is the name of a package. */
export interface Choice {
  readonly include: readonly (RegExp | string)[];
  readonly exclude: readonly (RegExp | string)[];
}

/**
 * transform: it is transformed. leave: it is loaded as it is, because the user has said so. check: it is loaded as it is,
 * and must have no directives, because its steps would be plain functions.
 */
export type Treatment = "transform" | "leave" | "check";

/** Published for workflows, with directives in them. */
const knownPackages: ReadonlySet<string> = new Set(["@ai-sdk/workflow", "@workflow/ai"]);

export function treatmentOf(file: string, { include, exclude }: Choice): Treatment {
  if (isOwnFile(file)) return "leave";
  const pack = packageOf(file);
  if (pack && exclude.includes(pack.name)) return "leave";
  if (matches(file, exclude)) return "check";
  if (isPackageFile(file)) return matches(file, include) || (pack && isChosen(pack, include)) ? "transform" : "check";
  return include.every((each) => typeof each === "string") || matches(file, include) ? "transform" : "check";
}

/** Whether the files of an installed package are transformed: by its name, or because its package.json says so. */
export function isChosen({ name, manifest }: Package, include: Choice["include"]): boolean {
  const field = manifest["onceflow"];
  const asks = typeof field === "object" && field !== null && (field as { readonly directives?: unknown }).directives === true;
  return include.includes(name) || knownPackages.has(name) || asks;
}

/** The packages that are chosen by their names. */
export function chosenByName(include: Choice["include"]): string[] {
  return [...knownPackages, ...include.filter((each) => typeof each === "string")];
}

function matches(file: string, patterns: readonly (RegExp | string)[]): boolean {
  // Not test(): with the flag g it remembers where it was.
  return patterns.some((each) => each instanceof RegExp && file.search(each) >= 0);
}

const packageName = /^(?:@[\w.~-]+\/)?[\w~-][\w.~-]*$/;

/** `option` as a list, checked. */
export function patternsOf(option: string, given: unknown): readonly (RegExp | string)[] {
  const list = given === undefined ? [] : [given].flat();
  if (!list.every((each) => each instanceof RegExp || (typeof each === "string" && packageName.test(each))))
    throw new InvalidInputError(option, "must be a regular expression for paths of files, the name of a package, or a list of them");
  return list as (RegExp | string)[];
}

/** What the environment variables say to `onceflow/register`. */
export function chosenByEnvironment(): { readonly choice: Choice; readonly directives: readonly string[] } {
  const patterns = (variable: string) => patternsOf(variable, namesIn(variable));
  return {
    choice: { include: patterns("ONCEFLOW_INCLUDE"), exclude: patterns("ONCEFLOW_EXCLUDE") },
    directives: namesIn("ONCEFLOW_DIRECTIVES"),
  };
}

/** The names in an environment variable, separated by commas. */
function namesIn(variable: string): string[] {
  return (process.env[variable] ?? "")
    .split(",")
    .map((each) => each.trim())
    .filter((each) => each !== "");
}
