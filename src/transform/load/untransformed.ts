import { parse } from "../ast.js";
import { findDirectives } from "../directives.js";
import { placeIn, TransformError } from "../errors.js";
import { isCommonJs, surveyed } from "../survey.js";
import { packageOf, pathFrom } from "./package-of.js";
import { isPackageFile } from "./project.js";

interface FoundDirective {
  readonly start: number;
  /** Such a file cannot be transformed, whatever the options say. */
  readonly isCommonJs: boolean;
}

/** The first directive of ours in code that is not transformed, if it has one. A text that says the same is none. */
export function directiveIn(file: string, code: string): FoundDirective | undefined {
  // As fast as it gets: every file of every package comes here.
  if (!code.includes("use step") && !code.includes("use workflow")) return undefined;
  const parsed = parse(file, code);
  const found = parsed && surveyed(parsed.program);
  const first = found && findDirectives(parsed.program, found).statements[0];
  return first && { start: first.start, isCommonJs: isCommonJs(parsed, found) };
}

/** Refuses a file that has directives and is not transformed: its effects would happen again with every replay. */
export function refuseDirectives(code: string, { file, root }: { readonly file: string; readonly root: string }): void {
  const found = directiveIn(file, code);
  if (found === undefined) return;
  const message = isPackageFile(file) ? packageAdvice(packageOf(file)?.name ?? file, found) : projectAdvice;
  throw new TransformError(pathFrom(root, file), [{ ...placeIn(code, found.start), message }]);
}

export const consequence = "its steps would be plain functions, and would be executed again with every replay";

const projectAdvice =
  `this file has directives, but the options include and exclude leave it out: ${consequence}. ` +
  "Change the options; to load all files of a package as they are, give its name to exclude.";

export function packageAdvice(name: string, { isCommonJs }: Pick<FoundDirective, "isCommonJs">): string {
  if (isCommonJs) return commonJsAdvice(name);
  return (
    `this file has directives, but package "${name}" is not transformed: ${consequence}. ` +
    `Name the package: include: ["${name}"] in the options of the plugin, or ONCEFLOW_INCLUDE=${name} for onceflow/register. ` +
    `Or write "onceflow": { "directives": true } into its package.json. ` +
    `To load it as it is: exclude: ["${name}"], or ONCEFLOW_EXCLUDE=${name}.`
  );
}

/** To name the package in `include` would lead to the next error. */
export function commonJsAdvice(name: string): string {
  return (
    `this file has directives, but package "${name}" is CommonJS here, which cannot be transformed: ${consequence}. ` +
    "Call the package in a step of your own, a function of yours with the directive in it, and load the package as it is: " +
    `exclude: ["${name}"] in the options of the plugin, or ONCEFLOW_EXCLUDE=${name} for onceflow/register.`
  );
}
