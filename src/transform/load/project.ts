import { existsSync } from "node:fs";
import { dirname, join, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";

/** The folder of this package, whose code is never transformed. It may be outside of node_modules if it is linked. */
const ownFolder = fileURLToPath(new URL("../..", import.meta.url));

/** The base folder of ids: `ONCEFLOW_ROOT`, or the nearest folder upwards that has a package.json. */
export function projectRoot(from: string = process.cwd()): string {
  const configuredRoot = process.env["ONCEFLOW_ROOT"];
  if (configuredRoot) return resolve(configuredRoot);
  for (let folder = resolve(from); ; folder = dirname(folder)) {
    if (existsSync(join(folder, "package.json"))) return folder;
    if (dirname(folder) === folder) return resolve(from);
  }
}

/** Whether a file belongs to the user's project and not to an installed package. */
export function isProjectFile(file: string): boolean {
  return !isPackageFile(file) && !isOwnFile(file);
}

/** Whether a file belongs to this package. */
export function isOwnFile(file: string): boolean {
  return file.startsWith(ownFolder);
}

export function isPackageFile(file: string): boolean {
  return file.includes(`${sep}node_modules${sep}`);
}
