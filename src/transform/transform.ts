import { knownOptions, type OptionNames } from "../core/errors/known-options.js";
import { parse } from "./ast.js";
import { concerns, hasDirective } from "./concerns.js";
import { findDirectives, type Problem } from "./directives.js";
import { edit } from "./edit.js";
import { placeIn, TransformError } from "./errors.js";
import { isMeant } from "./globals.js";
import { idsOfFile } from "./ids.js";
import { packageOf, pathFrom } from "./load/package-of.js";
import { isPackageFile } from "./load/project.js";
import { commonJsAdvice } from "./load/untransformed.js";
import { type SerdeClass, serdeClassesIn } from "./serde-classes.js";
import { isCommonJs, surveyed } from "./survey.js";

export interface TransformOptions {
  /** The file's whole path. */
  readonly file: string;
  /** The folder that ids are relative to where no package.json has a name, and that places in messages are relative to. */
  readonly root: string;
  /** Directives of others that are so near to ours that they would be taken for misspelt ones. */
  readonly directives?: readonly string[];
}

const optionNames: OptionNames<TransformOptions> = { file: true, root: true, directives: true };

export interface Transformed {
  readonly code: string;
  /** Of version 3. */
  readonly map: { readonly version: number; readonly sources: string[]; readonly names: string[]; readonly mappings: string };
}

/**
 * Makes workflows and steps of the functions that say so, and gives clocks, chance and the network their place in a run.
 * Undefined: there is nothing to do, and the file stays as it is. Throws TransformError, with everything that is wrong.
 */
export function transform(code: string, options: TransformOptions): Transformed | undefined {
  knownOptions("transform", options, optionNames);
  const { file, root, directives: known } = options;
  if (!concerns(code)) return undefined;
  const path = pathFrom(root, file);
  const parsed = parse(file, code);
  if (parsed === undefined) return undefined;
  const { program } = parsed;
  const found = surveyed(program);
  if (found === undefined) {
    // Generated code, most likely. With a directive in it, it must not pass as if it had none.
    if (!hasDirective(code)) return undefined;
    throw new TransformError(path, [{ line: 1, column: 1, message: tooDeep }]);
  }
  const directives = findDirectives(program, found, known);
  const inCommonJs = isCommonJs(parsed, found);
  const serde = serdeClassesIn(program, code);
  const problems = [
    ...directives.problems,
    ...serde.problems,
    ...(inCommonJs ? [...directives.statements.map((at) => notHere(at, file)), ...serde.classes.map(noSerdeHere)] : []),
  ];
  if (problems.length > 0) throw new TransformError(path, findingsOf(code, problems));
  const uses = inCommonJs ? [] : found.uses.filter((use) => isMeant(use, found.fileScope));
  if (directives.statements.length === 0 && uses.length === 0 && serde.classes.length === 0) return undefined;
  const edited = edit({
    code,
    program,
    directives,
    uses,
    serdeClasses: serde.classes,
    ids: idsOfFile(file, root, directives.marked),
    placeOf: ({ start }) => `${path}:${placeIn(code, start).line}:${placeIn(code, start).column}`,
  });
  return { code: edited.toString(), map: edited.generateMap({ source: file, hires: "boundary", includeContent: true }) };
}

const tooDeep = "this code is nested too deeply to be looked through. Move what has directives into a file of its own.";

function notHere(at: Problem["at"], file: string): Problem {
  const ownFile = "directives need an ES module, and this file is CommonJS. Use import and export, or workflow() and step().";
  return { at, message: isPackageFile(file) ? commonJsAdvice(packageOf(file)?.name ?? file) : ownFile };
}

function noSerdeHere({ body }: SerdeClass): Problem {
  const message = "static [WORKFLOW_SERIALIZE] needs an ES module, and this file is CommonJS. Use import and export, or serializable().";
  return { at: body, message };
}

function findingsOf(code: string, problems: readonly Problem[]) {
  const sorted = [...problems].sort((a, b) => a.at.start - b.at.start);
  return sorted.map(({ at, message }) => ({ ...placeIn(code, at.start), message }));
}
