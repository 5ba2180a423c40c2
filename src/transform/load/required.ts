import { chosenByEnvironment, treatmentOf } from "../choice.js";
import { hasDirective } from "../concerns.js";
import { placeIn, TransformError } from "../errors.js";
import { filesBehind } from "../relative-imports.js";
import { transform } from "../transform.js";
import { pathFrom } from "./package-of.js";
import { projectRoot } from "./project.js";
import { consequence, directiveIn, refuseDirectives } from "./untransformed.js";

const root = projectRoot();
const { choice, directives } = chosenByEnvironment();

/** Node 20 hands the imports of a module that was required to no hook. */
const hidesImports = Number.parseInt(process.versions.node, 10) < 22;

/**
 * Refuses a file that require() is about to load and that has directives. Hooks of ES modules do not see such a file, so
 * that it would be loaded untransformed.
 */
export function refuseRequired(code: string, file: string): void {
  refuseFile(code, file);
  if (hidesImports) for (const behind of filesBehind(file, code)) refuseFile(behind.code, behind.file);
}

function refuseFile(code: string, file: string): void {
  const treatment = treatmentOf(file, choice);
  if (treatment === "check") refuseDirectives(code, { file, root });
  if (treatment !== "transform" || !hasDirective(code)) return;
  // Has the better message for CommonJS and for misspelt directives.
  transform(code, { file, root, directives });
  const found = directiveIn(file, code);
  if (found) throw new TransformError(pathFrom(root, file), [{ ...placeIn(code, found.start), message: requireAdvice }]);
}

const requireAdvice =
  `this file has directives, but require() loads it, which transforms nothing: ${consequence}. ` +
  "Load it with import or import(). To load all files of a package as they are, give its name to ONCEFLOW_EXCLUDE.";
