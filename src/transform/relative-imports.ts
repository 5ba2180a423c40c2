import { readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { languageOf } from "./ast.js";

/** Few files lead to the directives of a package; a big package without any is not read to its end. */
const filesMax = 300;

const relativeImport = /\b(?:from|import|require)\s*\(?\s*["'](\.[^"']*)["']/g;

/** Import statements alone: CommonJS has none. */
const relativeStatement = /\b(?:from|import)\s*["'](\.[^"']*)["']/g;

interface SourceFile {
  readonly file: string;
  readonly code: string;
}

/** These files and the files that they import or require by relative paths, and so on. */
export function* filesFrom(entries: readonly string[], imports: RegExp = relativeImport): Generator<SourceFile> {
  const queue = [...entries];
  const seen = new Set<string>();
  for (let file = queue.shift(); file !== undefined && seen.size < filesMax; file = queue.shift()) {
    if (seen.has(file) || languageOf(file) === undefined || !isFile(file)) continue;
    seen.add(file);
    const code = readFileSync(file, "utf8");
    yield { file, code };
    queue.push(...importedBy(file, code, imports));
  }
}

/** The files behind the import statements of a module, without the module itself. */
export function filesBehind(file: string, code: string): Generator<SourceFile> {
  return filesFrom(importedBy(file, code, relativeStatement), relativeStatement);
}

function importedBy(file: string, code: string, imports: RegExp): string[] {
  return [...code.matchAll(imports)].map(([, path = ""]) => join(dirname(file), path));
}

function isFile(file: string): boolean {
  return statSync(file, { throwIfNoEntry: false })?.isFile() ?? false;
}
