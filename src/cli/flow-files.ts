import { type Dirent, readdirSync, realpathSync, statSync } from "node:fs";
import { join } from "node:path";
import { InvalidInputError } from "../exports/index.js";

const filesMax = 10_000;
const flowFile = /\.flowdsl\.(ya?ml|json)$/i;

/**
 * Resolves paths to files: named files as they are, and from folders, at any depth, all files (and links to files) that end
 * in .flowdsl.yaml, .yml or .json. A file that is named or linked twice is returned once.
 */
export function flowFiles(paths: readonly string[]): readonly string[] {
  const files = new Map<string, string>();
  for (const path of paths)
    for (const file of isFolder(path) ? filesIn(path) : [path]) {
      const real = realPathOf(file);
      if (!files.has(real)) files.set(real, file);
    }
  if (files.size > filesMax) throw new InvalidInputError("paths", `more than ${filesMax} files; name fewer folders`);
  if (files.size === 0) throw new InvalidInputError("paths", `no .flowdsl.yaml, .yml or .json files in ${paths.join(", ")}`);
  return [...files.values()];
}

/** A path that cannot be inspected counts as a file: reading it later reports the reason. */
function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}

function realPathOf(file: string): string {
  try {
    return realpathSync(file);
  } catch {
    return file;
  }
}

/** Does not follow links to folders, which could form a cycle. */
function filesIn(folder: string): string[] {
  const found: string[] = [];
  const pending = [folder];
  for (let next = pending.shift(); next !== undefined && found.length <= filesMax; next = pending.shift())
    for (const entry of readdirSync(next, { withFileTypes: true }).sort(byName)) {
      const path = join(next, entry.name);
      if (entry.isDirectory()) {
        if (entry.name !== "node_modules" && !entry.name.startsWith(".")) pending.push(path);
      } else if (flowFile.test(entry.name)) found.push(path);
    }
  return found;
}

const byName = (a: Dirent, b: Dirent) => (a.name < b.name ? -1 : 1);
