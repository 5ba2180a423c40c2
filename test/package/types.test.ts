import { spawnSync } from "node:child_process";
import { cpSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { appWith, link, manifest, type Packed, pack, root } from "./packed.js";

// An app whose compiler also checks the types of its dependencies (skipLibCheck: false).
let packed: Packed;
beforeAll(() => {
  packed = pack(afterAll);
});

const subpaths = Object.keys(manifest.exports).filter((subpath) => typeof manifest.exports[subpath] === "object");

/** Subpaths for a framework, a broker or a bundler: they use types of a package that the app has. */
const needsPackage = /^\.\/(http\/|inbox\/|server|vite|rollup|rolldown|esbuild|webpack|rspack|workflow\/vitest)/;

/** The compiler's output for an app that imports all of these. */
function compiled(folder: string, imported: readonly string[]): string {
  const lines = imported.map((subpath, i) => `import * as m${i} from "onceflow${subpath.slice(1)}";\nvoid m${i};\n`);
  const checks = { strict: true, skipLibCheck: false, noEmit: true };
  const compilerOptions = { ...checks, module: "nodenext", target: "es2022", lib: ["es2023"], types: ["node"] };
  writeFileSync(join(folder, "app.ts"), lines.join(""));
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["app.ts"] }));
  const { stdout, stderr } = spawnSync(join(root, "node_modules/.bin/tsc"), ["-p", folder], { encoding: "utf8" });
  return `${stdout}${stderr}`;
}

test("the types compile with the package's own dependencies only", () => {
  const folder = appWith(packed, { packages: [...Object.keys(manifest.dependencies), "@types/node"] });
  const imported = subpaths.filter((subpath) => !needsPackage.test(subpath));
  expect(imported.length).toBeGreaterThan(15);
  expect(compiled(folder, imported)).toBe("");
});

/** The types of Koa do not compile together with the content-disposition that Express installs here, so Koa has a separate app. */
const koa = "./http/koa";

test("the types for frameworks, brokers and bundlers compile with those packages", () => {
  const bundlers = ["vite", "rollup", "rolldown", "esbuild", "webpack", "@rspack/core"];
  const packages = [...Object.keys(manifest.dependencies), ...Object.keys(manifest.peerDependencies), ...bundlers];
  const folder = appWith(packed, { packages: [...packages, "@types/node", "@types/express"] });
  const imported = subpaths.filter((subpath) => needsPackage.test(subpath) && subpath !== koa);
  expect(imported.length).toBeGreaterThan(15);
  expect(compiled(folder, imported)).toBe("");
});

test("the types for Koa compile with Koa", () => {
  const folder = appWith(packed);
  const types = join(root, "node_modules/@types");
  cpSync(join(types, "koa"), join(folder, "node_modules/@types/koa"), { recursive: true });
  for (const name of readdirSync(types)) link(folder, `@types/${name}`, join(types, name));
  expect(compiled(folder, [koa])).toBe("");
});
