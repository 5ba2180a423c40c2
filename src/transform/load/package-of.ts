import { readFileSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";

/** A package whose package.json has a name. */
export interface Package {
  readonly name: string;
  readonly folder: string;
  /** The whole package.json. */
  readonly manifest: Readonly<Record<string, unknown>>;
}

/** Cache by folder, for the life of the process: a build needs the same few folders for every file. */
const known = new Map<string, Package | undefined>();

/** The package that a file belongs to: the nearest package.json above it that has a name. */
export function packageOf(file: string): Package | undefined {
  return packageAbove(dirname(file));
}

function packageAbove(folder: string): Package | undefined {
  if (known.has(folder)) return known.get(folder);
  const parent = dirname(folder);
  const found = packageIn(folder) ?? (parent === folder ? undefined : packageAbove(parent));
  known.set(folder, found);
  return found;
}

/** The package whose package.json is in this folder, if it has a name. */
export function packageIn(folder: string): Package | undefined {
  const manifest = manifestIn(folder);
  const name = manifest?.["name"];
  return manifest && typeof name === "string" && name !== "" ? { name, folder, manifest } : undefined;
}

function manifestIn(folder: string): Record<string, unknown> | undefined {
  let text: string;
  try {
    text = readFileSync(join(folder, "package.json"), "utf8");
  } catch {
    return undefined;
  }
  try {
    const manifest: unknown = JSON.parse(text.replace(/^\uFEFF/, ""));
    return typeof manifest === "object" && manifest !== null ? (manifest as Record<string, unknown>) : undefined;
  } catch (error) {
    // Do not continue without the name: the ids of the package's functions would change.
    throw new Error(`${join(folder, "package.json")} cannot be read: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** The path of a file from a folder, with "/". */
export function pathFrom(folder: string, file: string): string {
  return relative(folder, file).replaceAll(sep, "/");
}
