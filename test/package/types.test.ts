import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { temporaryFolder } from "../kit/temporary-folder.js";

// An app whose compiler looks into the types of its dependencies, too (skipLibCheck: false).
const root = resolve(import.meta.dirname, "../..");
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  exports: Record<string, string | object>;
  dependencies: Record<string, string>;
};
const subpaths = Object.keys(manifest.exports).filter((subpath) => typeof manifest.exports[subpath] === "object");

/** These are for a framework, a broker or a bundler: their types are those of a package that the app has. */
const needsPackage = /^\.\/(http\/|inbox\/|server|vite|rollup|rolldown|esbuild|webpack|rspack|workflow\/vitest)/;

function app(): string {
  const folder = temporaryFolder(onTestFinished);
  const compilerOptions = {
    ...{ strict: true, skipLibCheck: false, noEmit: true, module: "nodenext", target: "es2022", lib: ["es2023"], types: ["node"] },
    typeRoots: [join(root, "node_modules/@types")],
  };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["app.ts"] }));
  return folder;
}

/** What the compiler says to an app that imports all of these. */
function compiled(folder: string, imported: readonly string[]): string {
  const lines = imported.map((subpath, i) => `import * as m${i} from "onceflow${subpath.slice(1)}";\nvoid m${i};\n`);
  writeFileSync(join(folder, "app.ts"), lines.join(""));
  const { stdout, stderr } = spawnSync(join(root, "node_modules/.bin/tsc"), ["-p", folder], { encoding: "utf8" });
  return `${stdout}${stderr}`;
}

function link(folder: string, name: string, from: string): void {
  mkdirSync(dirname(join(folder, "node_modules", name)), { recursive: true });
  symlinkSync(from, join(folder, "node_modules", name));
}

test("the types compile beside nothing but the package's own dependencies", () => {
  const folder = app();
  const installed = join(folder, "node_modules/onceflow");
  for (const part of ["dist", "package.json"]) cpSync(join(root, part), join(installed, part), { recursive: true });
  for (const name of [...Object.keys(manifest.dependencies), "@types/node"]) link(folder, name, join(root, "node_modules", name));
  const imported = subpaths.filter((subpath) => !needsPackage.test(subpath));
  expect(imported.length).toBeGreaterThan(10);
  expect(compiled(folder, imported)).toBe("");
});

test("and those for frameworks, brokers and bundlers beside these", () => {
  const folder = app();
  link(folder, "onceflow", root);
  // @types/koa itself does not compile beside the content-disposition that is installed.
  const imported = subpaths.filter((subpath) => needsPackage.test(subpath) && subpath !== "./http/koa");
  expect(imported.length).toBeGreaterThan(15);
  expect(compiled(folder, imported)).toBe("");
});
