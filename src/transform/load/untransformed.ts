import { parse } from "../ast.js";
import { findDirectives } from "../directives.js";
import { positionIn, TransformError } from "../errors.js";
import { isCommonJs, trySurvey } from "../survey.js";
import { packageOf, pathFrom } from "./package-of.js";
import { isPackageFile } from "./project.js";

interface FoundDirective {
  readonly start: number;
  /** A CommonJS file cannot be transformed, whatever the options are. */
  readonly isCommonJs: boolean;
}

/** The first directive in code that is not transformed. The same string elsewhere in the code does not count. */
export function directiveIn(file: string, code: string): FoundDirective | undefined {
  // Fast path: every file of every package is checked.
  if (!code.includes("use step") && !code.includes("use workflow")) return undefined;
  const parsed = parse(file, code);
  const found = parsed && trySurvey(parsed.program);
  const first = found && findDirectives(parsed.program, found).statements[0];
  return first && { start: first.start, isCommonJs: isCommonJs(parsed, found) };
}

/** Throws TransformError if a file that is not transformed has directives: its effects would happen again with every replay. */
export function refuseDirectives(code: string, { file, root }: { readonly file: string; readonly root: string }): void {
  const found = directiveIn(file, code);
  if (found === undefined) return;
  const message = isPackageFile(file) ? packageAdvice(packageOf(file)?.name ?? file, found) : projectAdvice;
  throw new TransformError(pathFrom(root, file), [{ ...positionIn(code, found.start), message }]);
}

export const consequence = "its steps would be plain functions and would run again with every replay";

const projectAdvice =
  `this file has directives, but the options include and exclude leave it out: ${consequence}. ` +
  "Change the options; to load all files of a package untransformed, add its name to exclude.";

export function packageAdvice(name: string, { isCommonJs }: Pick<FoundDirective, "isCommonJs">): string {
  if (isCommonJs) return commonJsAdvice(name);
  return (
    `this file has directives, but package "${name}" is not transformed: ${consequence}. ` +
    `Include the package: include: ["${name}"] in the options of the plugin, or ONCEFLOW_INCLUDE=${name} for onceflow/register. ` +
    `Or add "onceflow": { "directives": true } to its package.json. ` +
    `To load it untransformed: exclude: ["${name}"], or ONCEFLOW_EXCLUDE=${name}.`
  );
}

/** Does not suggest `include`, because the transform rejects CommonJS, too. */
export function commonJsAdvice(name: string): string {
  return (
    `this file has directives, but package "${name}" is CommonJS here, which cannot be transformed: ${consequence}. ` +
    "Call the package from a step in your own code, and load the package untransformed: " +
    `exclude: ["${name}"] in the options of the plugin, or ONCEFLOW_EXCLUDE=${name} for onceflow/register.`
  );
}
