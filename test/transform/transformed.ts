import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { onTestFinished } from "vitest";
import { strip } from "../../src/transform/load/strip.js";
import { transform } from "../../src/transform/transform.js";

const folder = resolve(import.meta.dirname, "../../.build/transformed");
let modules = 0;

/** Transforms TypeScript files and imports the first. Their ids are those of an app whose package has no name. */
export async function importTransformed<Exports = Record<string, never>>(files: Readonly<Record<string, string>>): Promise<Exports> {
  modules += 1;
  const root = join(folder, `${process.pid}-${modules}`);
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  for (const [name, code] of Object.entries(files)) {
    const file = join(root, name);
    const transformed = transform(code, { file: join("/app", name), root: "/app" });
    mkdirSync(dirname(file), { recursive: true });
    const stripped = strip(file, transformed?.code ?? code, transformed?.map).code;
    // The test runner transforms this file, but not the files that it writes: those have to be JavaScript.
    writeFileSync(file.replace(/\.tsx?$/, ".js"), stripped);
  }
  const [first = ""] = Object.keys(files);
  return (await import(pathToFileURL(join(root, first.replace(/\.tsx?$/, ".js"))).href)) as Exports;
}
