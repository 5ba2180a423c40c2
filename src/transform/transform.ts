import { knownOptions, type OptionNames } from "../core/errors/known-options.js";
import { parse } from "./ast.js";
import { hasDirective, mayNeedTransform } from "./concerns.js";
import { findDirectives, type Problem } from "./directives.js";
import { edit } from "./edit.js";
import { positionIn, TransformError } from "./errors.js";
import { refersToGlobal } from "./globals.js";
import { idsOfFile } from "./ids.js";
import { packageOf, pathFrom } from "./load/package-of.js";
import { isPackageFile } from "./load/project.js";
import { commonJsAdvice } from "./load/untransformed.js";
import { type SerdeClass, serdeClassesIn } from "./serde-classes.js";
import { isCommonJs, trySurvey } from "./survey.js";

/** Options of {@link transform}. */
export interface TransformOptions {
  /** Absolute path of the file. */
  readonly file: string;
  /** Base folder of the paths in messages, and of ids if no package.json above the file has a name. */
  readonly root: string;
  /** Directives of other tools that resemble "use workflow" or "use step" and would otherwise be reported as misspelt. */
  readonly directives?: readonly string[];
}

const optionNames: OptionNames<TransformOptions> = { file: true, root: true, directives: true };

/** Result of {@link transform}. */
export interface Transformed {
  readonly code: string;
  /** Source map, version 3. */
  readonly map: { readonly version: number; readonly sources: string[]; readonly names: string[]; readonly mappings: string };
}

/**
 * Turns functions with the directives "use workflow" and "use step" into workflows and steps, and replaces clocks, random
 * numbers, timers and `fetch` by versions that are deterministic in a run. Returns undefined if the file needs no change.
 * Throws TransformError with all problems of the file.
 *
 * @example
 * const result = transform(code, { file: "/app/src/order.ts", root: "/app" });
 * if (result) await writeFile("/app/dist/order.ts", result.code);
 */
export function transform(code: string, options: TransformOptions): Transformed | undefined {
  knownOptions("transform", options, optionNames);
  const { file, root, directives: known } = options;
  if (!mayNeedTransform(code)) return undefined;
  const path = pathFrom(root, file);
  const parsed = parse(file, code);
  if (parsed === undefined) return undefined;
  const { program } = parsed;
  const found = trySurvey(program);
  if (found === undefined) {
    // Probably generated code. It may pass unchanged only if it has no directives.
    if (!hasDirective(code)) return undefined;
    throw new TransformError(path, [{ line: 1, column: 1, message: tooDeep }]);
  }
  const directives = findDirectives(program, found, known);
  const inCommonJs = isCommonJs(parsed, found);
  const serde = serdeClassesIn(program, code);
  const problems = [
    ...directives.problems,
    ...serde.problems,
    ...(inCommonJs ? [...directives.statements.map((at) => commonJsProblem(at, file)), ...serde.classes.map(commonJsSerdeProblem)] : []),
  ];
  if (problems.length > 0) throw new TransformError(path, findingsOf(code, problems));
  const uses = inCommonJs ? [] : found.uses.filter((use) => refersToGlobal(use, found.fileScope));
  if (directives.statements.length === 0 && uses.length === 0 && serde.classes.length === 0) return undefined;
  const edited = edit({
    code,
    program,
    directives,
    uses,
    serdeClasses: serde.classes,
    ids: idsOfFile(file, root, directives.marked),
    placeOf: ({ start }) => `${path}:${positionIn(code, start).line}:${positionIn(code, start).column}`,
  });
  return { code: edited.toString(), map: edited.generateMap({ source: file, hires: "boundary", includeContent: true }) };
}

const tooDeep = "this code is nested too deeply to be analysed. Move the functions with directives to another file.";

function commonJsProblem(at: Problem["at"], file: string): Problem {
  const projectFile = "directives need an ES module, and this file is CommonJS. Use import and export, or workflow() and step().";
  return { at, message: isPackageFile(file) ? commonJsAdvice(packageOf(file)?.name ?? file) : projectFile };
}

function commonJsSerdeProblem({ body }: SerdeClass): Problem {
  const message = "static [WORKFLOW_SERIALIZE] needs an ES module, and this file is CommonJS. Use import and export, or serializable().";
  return { at: body, message };
}

function findingsOf(code: string, problems: readonly Problem[]) {
  const sorted = [...problems].sort((a, b) => a.at.start - b.at.start);
  return sorted.map(({ at, message }) => ({ ...positionIn(code, at.start), message }));
}
