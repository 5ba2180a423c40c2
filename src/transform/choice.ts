import { InvalidInputError } from "../core/errors/errors.js";
import { type Package, packageOf } from "./load/package-of.js";
import { isOwnFile, isPackageFile } from "./load/project.js";

/** Which files are transformed. A regular expression is matched against the path of a file; a string is the name of a package. */
export interface Choice {
  readonly include: readonly (RegExp | string)[];
  readonly exclude: readonly (RegExp | string)[];
}

/**
 * What happens to a file. transform: it is transformed. leave: it is loaded unchanged, because the user asked for that.
 * check: it is loaded unchanged, and a directive in it is an error, because its steps would be plain functions.
 */
export type Treatment = "transform" | "leave" | "check";

/** Packages on npm that are published with directives in their code. */
const knownPackages: ReadonlySet<string> = new Set(["@ai-sdk/workflow", "@workflow/ai"]);

export function treatmentOf(file: string, { include, exclude }: Choice): Treatment {
  if (isOwnFile(file)) return "leave";
  const pack = packageOf(file);
  if (pack && exclude.includes(pack.name)) return "leave";
  if (matches(file, exclude)) return "check";
  if (isPackageFile(file)) return matches(file, include) || (pack && isIncluded(pack, include)) ? "transform" : "check";
  return include.every((each) => typeof each === "string") || matches(file, include) ? "transform" : "check";
}

/** Whether the files of an installed package are transformed: because its name is listed, or its package.json asks for it. */
export function isIncluded({ name, manifest }: Package, include: Choice["include"]): boolean {
  const field = manifest["onceflow"];
  const optsIn = typeof field === "object" && field !== null && (field as { readonly directives?: unknown }).directives === true;
  return include.includes(name) || knownPackages.has(name) || optsIn;
}

/** Names of all packages that are transformed because of their name. */
export function includedByName(include: Choice["include"]): string[] {
  return [...knownPackages, ...include.filter((each) => typeof each === "string")];
}

function matches(file: string, patterns: readonly (RegExp | string)[]): boolean {
  // search() and not test(): with the flag g, test() continues where the last match ended.
  return patterns.some((each) => each instanceof RegExp && file.search(each) >= 0);
}

const packageName = /^(?:@[\w.~-]+\/)?[\w~-][\w.~-]*$/;

/** Returns the value of an option as a list. Throws InvalidInputError if an element is neither a regular expression nor a package name. */
export function patternsOf(option: string, given: unknown): readonly (RegExp | string)[] {
  const list = given === undefined ? [] : [given].flat();
  if (!list.every((each) => each instanceof RegExp || (typeof each === "string" && packageName.test(each))))
    throw new InvalidInputError(option, "must be a regular expression for file paths, the name of a package, or an array of these");
  return list as (RegExp | string)[];
}

/** Options of `onceflow/register`, read from environment variables. */
export function choiceFromEnvironment(): { readonly choice: Choice; readonly directives: readonly string[] } {
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
