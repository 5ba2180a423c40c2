// Prints the size of what `npm install onceflow` installs, for each part of onceflow that needs it: the table of docs/reference/package.md.
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** The dependencies that each part needs beside those of the parts above it. */
const parts = {
  "`once`, workflows, keyed flows, HTTP, inbox, outbox, stores": ["onceflow", "devalue"],
  "flow graphs": ["yaml", "@marcbachmann/cel-js", "re2js"],
  "the command `onceflow`": ["commander"],
  'directives (`"use workflow"`) and the plugins for bundlers': [
    "@jridgewell/remapping",
    "magic-string",
    "oxc-parser",
    "oxc-transform",
    "unplugin",
  ],
};

const folder = mkdtempSync(join(tmpdir(), "onceflow-size-"));
try {
  const packed = execFileSync("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", folder], { encoding: "utf8" });
  const [{ filename }] = JSON.parse(packed);
  const install = ["install", "--prefix", folder, "--no-audit", "--no-fund", "--ignore-scripts", "--omit=peer", join(folder, filename)];
  execFileSync("npm", install, { stdio: ["ignore", "ignore", "inherit"] });
  const modules = join(folder, "node_modules");
  const counted = new Set();
  console.log("| part | packages | MB |\n|---|---|---|");
  for (const [part, names] of Object.entries(parts)) {
    const needed = names.flatMap((name) => withDependencies(modules, name)).filter((name) => !counted.has(name));
    const unique = [...new Set(needed)];
    for (const name of unique) counted.add(name);
    const bytes = unique.reduce((sum, name) => sum + sizeOf(join(modules, name)), 0);
    console.log(`| ${part} | ${unique.length} | ${(bytes / 1e6).toFixed(1)} |`);
  }
  const left = installed(modules).filter((name) => !counted.has(name));
  if (left.length > 0) throw new Error(`these packages belong to no part: ${left.join(", ")}`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** A package and its dependencies. Native packages for other platforms are not installed and do not count. */
function withDependencies(modules, name) {
  if (!existsSync(join(modules, name))) return [];
  const { dependencies = {}, optionalDependencies = {} } = JSON.parse(readFileSync(join(modules, name, "package.json"), "utf8"));
  const own = name === "onceflow" ? [] : Object.keys({ ...dependencies, ...optionalDependencies });
  return [name, ...own.flatMap((each) => withDependencies(modules, each))];
}

function installed(modules) {
  const names = readdirSync(modules).filter((name) => !name.startsWith("."));
  return names.flatMap((name) => (name.startsWith("@") ? readdirSync(join(modules, name)).map((each) => `${name}/${each}`) : [name]));
}

function sizeOf(path) {
  const files = readdirSync(path, { recursive: true, encoding: "utf8" }).map((file) => statSync(join(path, file)));
  return files.reduce((sum, file) => sum + (file.isFile() ? file.size : 0), 0);
}
