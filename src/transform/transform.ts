import { relative, sep } from "node:path";
import { parse } from "./ast.js";
import { concerns } from "./concerns.js";
import { findDirectives, type Marked, type Problem } from "./directives.js";
import { edit } from "./edit.js";
import { placeIn, TransformError } from "./errors.js";
import { isMeant } from "./globals.js";
import { survey } from "./survey.js";

export interface TransformOptions {
  /** The file's whole path. */
  readonly file: string;
  /** The folder that ids are relative to. */
  readonly root: string;
}

export interface Transformed {
  readonly code: string;
  /** Of version 3. */
  readonly map: { readonly version: number; readonly sources: string[]; readonly names: string[]; readonly mappings: string };
}

/**
 * Makes workflows and steps of the functions that say so, and gives clocks, chance and the network their place in a run.
 * Undefined: there is nothing to do, and the file stays as it is. Throws TransformError, with everything that is wrong.
 */
export function transform(code: string, { file, root }: TransformOptions): Transformed | undefined {
  if (!concerns(code)) return undefined;
  const parsed = parse(file, code);
  if (parsed === undefined) return undefined;
  const { program, isModule } = parsed;
  const found = survey(program);
  const directives = findDirectives(program, found);
  const path = relative(root, file).replaceAll(sep, "/");
  const isCommonJs = !(isModule ?? !found.isCommonJs);
  const problems = [...directives.problems, ...(isCommonJs ? directives.statements.map(notHere) : [])];
  if (problems.length > 0) throw new TransformError(path, findingsOf(code, problems));
  const uses = isCommonJs ? [] : found.uses.filter((use) => isMeant(use, found.fileScope));
  if (directives.statements.length === 0 && uses.length === 0) return undefined;
  const edited = edit({
    code,
    program,
    directives,
    uses,
    idOf: ({ kind, path: name }: Marked) => `${kind}//${escaped(path)}//${escaped(name)}`,
    placeOf: ({ start }) => `${path}:${placeIn(code, start).line}:${placeIn(code, start).column}`,
  });
  return { code: edited.toString(), map: edited.generateMap({ source: file, hires: "boundary", includeContent: true }) };
}

function notHere(at: Problem["at"]): Problem {
  return { at, message: "directives need an ES module, and this file is CommonJS. Use import and export, or workflow() and step()." };
}

/** Names in the journal have neither of these. */
function escaped(text: string): string {
  return text.replace(/[#\p{Cc}]/gu, encodeURIComponent);
}

function findingsOf(code: string, problems: readonly Problem[]) {
  const sorted = [...problems].sort((a, b) => a.at.start - b.at.start);
  return sorted.map(({ at, message }) => ({ ...placeIn(code, at.start), message }));
}
