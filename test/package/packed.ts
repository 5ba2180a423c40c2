import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { onTestFinished } from "vitest";
import { temporaryFolder } from "../kit/temporary-folder.js";

export const root = resolve(import.meta.dirname, "../..");

export const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  readonly exports: Readonly<Record<string, string | Readonly<Record<string, string>>>>;
  readonly bin: { readonly onceflow: string };
  readonly dependencies: Readonly<Record<string, string>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta: Readonly<Record<string, { readonly optional: boolean }>>;
};

/** Packages that only directives need: the parser, the printer of source maps, and the adapter to bundlers. */
export const directivePackages = ["@jridgewell/remapping", "magic-string", "oxc-parser", "oxc-transform", "unplugin"];

export interface Packed {
  /** The unpacked tarball. */
  readonly folder: string;
  /** Paths of its files. */
  readonly files: readonly string[];
  readonly tarballBytes: number;
  readonly unpackedBytes: number;
}

/** Packs the package as npm publishes it, and unpacks it into a folder, which `onEnd` removes. */
export function pack(onEnd: (end: () => void) => void): Packed {
  const folder = temporaryFolder(onEnd);
  const args = ["pack", "--json", "--ignore-scripts", "--pack-destination", folder];
  const [packed] = JSON.parse(execFileSync("npm", args, { cwd: root, encoding: "utf8" })) as [
    { filename: string; size: number; unpackedSize: number; files: { path: string }[] },
  ];
  const unpacked = join(folder, "package");
  execFileSync("tar", ["-xzf", join(folder, packed.filename), "-C", folder]);
  return {
    folder: unpacked,
    files: packed.files.map(({ path }) => path),
    tarballBytes: packed.size,
    unpackedBytes: packed.unpackedSize,
  };
}

interface AppOptions {
  readonly files?: Readonly<Record<string, string>>;
  /** Packages beside onceflow: names of packages of this repository. Default: the dependencies of onceflow. */
  readonly packages?: readonly string[];
  /** When the folder is removed: `onTestFinished`, the default, or `afterAll`. */
  readonly onEnd?: (end: () => void) => void;
}

/** Creates an app in which the packed package and exactly these packages are installed. */
export function appWith({ folder: packed }: Packed, options: AppOptions = {}): string {
  const { files = {}, packages = Object.keys(manifest.dependencies), onEnd = onTestFinished } = options;
  const folder = temporaryFolder(onEnd);
  for (const part of ["dist", "schema", "package.json"])
    cpSync(join(packed, part), join(folder, "node_modules/onceflow", part), { recursive: true });
  for (const name of packages) link(folder, name, join(root, "node_modules", name));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  return folder;
}

export function link(folder: string, name: string, from: string): void {
  const place = join(folder, "node_modules", name);
  if (existsSync(place)) return;
  mkdirSync(dirname(place), { recursive: true });
  symlinkSync(from, place);
}
