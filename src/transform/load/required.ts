import { choiceFromEnvironment, treatmentOf } from "../choice.js";
import { hasDirective } from "../concerns.js";
import { positionIn, TransformError } from "../errors.js";
import { filesBehind } from "../relative-imports.js";
import { transform } from "../transform.js";
import { pathFrom } from "./package-of.js";
import { projectRoot } from "./project.js";
import { consequence, directiveIn, refuseDirectives } from "./untransformed.js";

const root = projectRoot();
const { choice, directives } = choiceFromEnvironment();

/** Node 20 does not call module hooks for the imports of a module that was loaded by require(). */
const hidesImports = Number.parseInt(process.versions.node, 10) < 22;

/**
 * Throws TransformError if require() is about to load a file with directives. Module hooks do not see such a file, so it
 * would be loaded untransformed.
 */
export function refuseRequired(code: string, file: string): void {
  refuseFile(code, file);
  if (hidesImports) for (const behind of filesBehind(file, code)) refuseFile(behind.code, behind.file);
}

function refuseFile(code: string, file: string): void {
  const treatment = treatmentOf(file, choice);
  if (treatment === "check") refuseDirectives(code, { file, root });
  if (treatment !== "transform" || !hasDirective(code)) return;
  // Throws better messages for CommonJS and for misspelt directives.
  transform(code, { file, root, directives });
  const found = directiveIn(file, code);
  if (found) throw new TransformError(pathFrom(root, file), [{ ...positionIn(code, found.start), message: requireAdvice }]);
}

const requireAdvice =
  `this file has directives, but require() loads it without transforming it: ${consequence}. ` +
  "Load it with import or import(). To load all files of a package untransformed, add its name to ONCEFLOW_EXCLUDE.";
