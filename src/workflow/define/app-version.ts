import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";

/**
 * The version of the application, for the list of workers: from the nearest package.json with a version, from the working
 * directory upwards. The search does not start at the program's file, because that often belongs to a tool (`next start`, `tsx`).
 */
export function appVersion(from: string = process.cwd()): string | null {
  for (let folder = from; ; folder = dirname(folder)) {
    const version = versionIn(join(folder, "package.json"));
    if (version !== undefined) return version;
    if (dirname(folder) === folder) return null;
  }
}

function versionIn(file: string): string | undefined {
  try {
    const { version } = JSON.parse(readFileSync(file, "utf8")) as { version?: unknown };
    return typeof version === "string" && version !== "" ? version : undefined;
  } catch {
    return undefined;
  }
}
