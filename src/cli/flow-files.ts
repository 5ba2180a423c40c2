import { type Dirent, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { exitUsage } from "./exit-codes.js";
import { note } from "./output.js";

const filesMax = 10_000;
const flowFile = /\.flowdsl\.(ya?ml|json)$/i;

/** Files as they are named; in folders, at any depth, all that end in .flowdsl.yaml, .yml or .json. Undefined: there are none. */
export function flowFiles(paths: readonly string[]): readonly string[] | undefined {
  const files = paths.flatMap((path) => (isFolder(path) ? filesIn(path) : [path]));
  if (files.length > 0 && files.length <= filesMax) return [...new Set(files)];
  note(
    files.length === 0 ? `no .flowdsl.yaml, .yml or .json files in ${paths.join(", ")}` : `more than ${filesMax} files; name fewer folders`,
  );
  process.exitCode = exitUsage;
  return undefined;
}

/** What is not there is taken for a file: reading it says so. */
function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

function filesIn(folder: string): string[] {
  const found: string[] = [];
  const pending = [folder];
  for (let next = pending.shift(); next !== undefined && found.length <= filesMax; next = pending.shift())
    for (const entry of readdirSync(next, { withFileTypes: true }).sort(byName)) {
      const path = join(next, entry.name);
      if (entry.isDirectory() && entry.name !== "node_modules" && !entry.name.startsWith(".")) pending.push(path);
      else if (entry.isFile() && flowFile.test(entry.name)) found.push(path);
    }
  return found;
}

const byName = (a: Dirent, b: Dirent) => (a.name < b.name ? -1 : 1);
