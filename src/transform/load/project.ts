import { existsSync } from "node:fs";
import { dirname, join, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";

/** This package, which keeps its own time. It need not be in node_modules: it may be linked. */
const ours = fileURLToPath(new URL("../..", import.meta.url));

/** The folder that ids are relative to: `ONCEFLOW_ROOT`, or the nearest one from here upwards that has a package.json. */
export function projectRoot(from: string = process.cwd()): string {
  const said = process.env["ONCEFLOW_ROOT"];
  if (said) return resolve(said);
  for (let folder = resolve(from); ; folder = dirname(folder)) {
    if (existsSync(join(folder, "package.json"))) return folder;
    if (dirname(folder) === folder) return resolve(from);
  }
}

/** Whether a file is the user's, and not that of an installed package. */
export function isProjectFile(file: string): boolean {
  return !isPackageFile(file) && !isOwnFile(file);
}

/** Whether a file is this package's. */
export function isOwnFile(file: string): boolean {
  return file.startsWith(ours);
}

export function isPackageFile(file: string): boolean {
  return file.includes(`${sep}node_modules${sep}`);
}
