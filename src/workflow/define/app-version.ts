import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";

/**
 * The application's version, for the list of workers: of the nearest package.json that has one, from the working directory upwards.
 * Not from the program's file upwards: that is often a tool's (`next start`, `tsx`), whose version would be shown for the app's.
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
