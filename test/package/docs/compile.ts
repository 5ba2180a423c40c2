import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { hasDirective } from "../../../src/transform/concerns.js";
import { transform } from "../../../src/transform/transform.js";
import { codeOf, root, samples } from "./pages.js";
import type { Sample } from "./samples.js";

const build = join(root, ".build/docs");
export const outFolder = join(build, "out");

/** Compiles all samples together: checks their types, and produces JavaScript for Node 20. Returns the compiler's errors by sample. */
export function compile(): Map<string, string[]> {
  rmSync(build, { recursive: true, force: true });
  for (const { name, files } of samples) {
    mkdirSync(join(build, name), { recursive: true });
    // An empty export turns a file without imports into a module.
    for (const file of files) writeFileSync(join(build, name, file.name), `${file.code}\nexport {};\n`);
  }
  const compilerOptions = {
    rootDir: "../..",
    outDir: "out",
    declaration: false,
    sourceMap: false,
    noUnusedLocals: false,
    noUnusedParameters: false,
    rewriteRelativeImportExtensions: true,
  };
  writeFileSync(
    join(build, "tsconfig.json"),
    JSON.stringify({
      extends: "../../tsconfig.base.json",
      compilerOptions,
      include: ["./*/*.ts", "../../test/package/docs/run-sample.ts"],
      exclude: ["out"],
    }),
  );
  const errors = typeErrors();
  for (const sample of samples) if (hasDirective(codeOf(sample))) for (const file of sample.files) transformFile(sample, file.name);
  return errors;
}

function typeErrors(): Map<string, string[]> {
  const errors = new Map<string, string[]>();
  try {
    execFileSync(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), "-p", build, "--pretty", "false"], {
      cwd: root,
      encoding: "utf8",
    });
  } catch (error) {
    const output = String((error as { stdout?: string }).stdout);
    for (const line of output.split("\n").filter((text) => /^\S/.test(text))) {
      const [, name = "", file = "", at = "", rest = ""] = /^\.build\/docs\/([^/]+)\/([^/(]+)\((\d+)(.*)$/.exec(line) ?? [];
      const sample = samples.find((one) => one.name === name);
      if (sample === undefined) throw new Error(output, { cause: error });
      const first = sample.files.find((one) => one.name === file)?.line ?? sample.line;
      errors.set(name, [...(errors.get(name) ?? []), `${sample.page}:${first + Number(at) - 1} (${rest.replace(/^,/, "")}`]);
    }
  }
  return errors;
}

export function compiled({ name }: Sample, file: string): string {
  return join(outFolder, ".build/docs", name, file.replace(/\.ts$/, ".js"));
}

/** Files with directives belong to the package of the reader, which is named "shop". */
function transformFile(sample: Sample, name: string): void {
  const readers = join(outFolder, "reader");
  mkdirSync(readers, { recursive: true });
  writeFileSync(join(readers, "package.json"), '{ "name": "shop" }');
  const file = compiled(sample, name);
  const code = transform(readFileSync(file, "utf8"), { file: join(readers, name), root: readers })?.code;
  if (code !== undefined) writeFileSync(file, code);
}
