import { readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { languageOf } from "./ast.js";

/** Directives of a package are found within a few files; this bounds the search in a big package without any. */
const filesMax = 300;

const relativeImport = /\b(?:from|import|require)\s*\(?\s*["'](\.[^"']*)["']/g;

/** Matches import statements only, not `require` or `import()`. */
const relativeStatement = /\b(?:from|import)\s*["'](\.[^"']*)["']/g;

interface SourceFile {
  readonly file: string;
  readonly code: string;
}

/** These files and, transitively, the files that they import or require by relative paths. */
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

/** The files that a module imports statically by relative paths, transitively, without the module itself. */
export function filesBehind(file: string, code: string): Generator<SourceFile> {
  return filesFrom(importedBy(file, code, relativeStatement), relativeStatement);
}

function importedBy(file: string, code: string, imports: RegExp): string[] {
  return [...code.matchAll(imports)].map(([, path = ""]) => join(dirname(file), path));
}

function isFile(file: string): boolean {
  return statSync(file, { throwIfNoEntry: false })?.isFile() ?? false;
}
