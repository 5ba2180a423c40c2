import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { runNode } from "../kit/app-folder.js";
import { acquire } from "../servers/acquire.js";
import type { Acquired } from "../servers/acquire-from.js";
import type { Runtime } from "../servers/provider.js";
import { cachedPackages } from "../servers/sources/npm-cache.js";
import { appWith, link, pack, root } from "./packed.js";

/**
 * A project as `npm init -y` creates it, with `"type": "commonjs"`: the package is ESM, and Node's `require` loads it. The
 * configuration of Jest in docs/reference/package.md is tested here as printed.
 */
const tools = ["tsx@4", "ts-node@10", "typescript@5", "jest@30", "ts-jest@29", "@swc/core@1", "@swc/jest@0.2", "@types/jest@30"];

const main = `
async function main() {
  const store = await open("sqlite:./app-" + process.pid + ".db");
  const result = await once(store, { key: key.of("k") }, () => 42);
  console.log(result.status, typeof sleep, typeof start, typeof idempotent, typeof formatFlow);
  await store.close();
}
void main();
`;
const names = {
  onceflow: "key, once, open",
  "onceflow/workflow": "sleep",
  "onceflow/workflow/api": "start",
  "onceflow/http": "idempotent",
  "onceflow/graph": "formatFlow",
};
const printed = "executed function function function function\n";
const imports = Object.entries(names).map(([subpath, list]) => `import { ${list} } from "${subpath}";`);
const requires = Object.entries(names).map(([subpath, list]) => `const { ${list} } = require("${subpath}");`);
const jestTest = `
test("once", async () => {
  const store = await open("sqlite:./jest-" + process.pid + ".db");
  expect(await once(store, { key: key.of("k") }, () => 42)).toMatchObject({ value: 42 });
  await store.close();
});
`;
/** The configuration of Jest in the docs. */
function printedConfiguration(): string {
  const page = readFileSync(join(root, "docs/reference/package.md"), "utf8");
  const [, block] = /^```js\n(\/\/ jest\.config\.js\n.*?)^```$/ms.exec(page) ?? [];
  if (block === undefined) throw new Error("docs/reference/package.md has no jest.config.js");
  return block;
}

const compilerOptions = { target: "es2022", strict: true, skipLibCheck: true, types: ["node", "jest"] };

const files = {
  "package.json": '{ "name": "app", "version": "1.0.0", "type": "commonjs" }',
  "app.js": `${requires.join("\n")}\n${main}`,
  "app.ts": `${imports.join("\n")}\n${main}`,
  "tsconfig.json": JSON.stringify({ compilerOptions: { ...compilerOptions, module: "nodenext" } }),
  "tsconfig.commonjs.json": JSON.stringify({ compilerOptions: { ...compilerOptions, module: "commonjs", esModuleInterop: true } }),
  "app.test.js": `${requires.join("\n")}\n${jestTest}`,
  "app.test.ts": `${imports.join("\n")}\n${jestTest}`,
  "jest.config.js": "module.exports = { roots: [__dirname], transform: { '\\\\.ts$': 'ts-jest' } };",
  "jest.transform.config.js": printedConfiguration(),
};

let folder: string;
let missing: string | undefined;
const nodes = new Map<number, Acquired<Runtime>>();
beforeAll(async () => {
  nodes.set(20, await acquire("node20")).set(24, await acquire("node24"));
  try {
    const modules = await cachedPackages("commonjs-tools", tools);
    folder = appWith(pack(afterAll), {
      files,
      packages: ["devalue", "yaml", "re2js", "@marcbachmann/cel-js", "@photostructure/sqlite", "@types/node"],
      onEnd: afterAll,
    });
    for (const name of tools.map((tool) => tool.replace(/(.)@.*$/, "$1"))) link(folder, name, join(modules, name));
  } catch (error) {
    if (process.env["CI"] === "true") throw error;
    missing = `the tools cannot be installed: ${(error as Error).message}`;
  }
}, 600_000);

describe.each([20, 24])("a CommonJS project on Node %i", (major) => {
  async function run(args: readonly string[], env: NodeJS.ProcessEnv = {}) {
    const node = nodes.get(major);
    if (!node?.ok) throw new Error(node?.reason);
    return await runNode(args, { cwd: folder, node: node.running.path, env });
  }
  const testOnNode = (title: string, body: () => Promise<void>) =>
    test(title, { timeout: 120_000 }, async ({ skip }) => {
      const node = nodes.get(major);
      if (!node?.ok) return skip(node?.reason);
      if (missing !== undefined) return skip(missing);
      await body();
    });
  const jest = "node_modules/jest/bin/jest.js";

  testOnNode("requires the package", async () => {
    expect(await run(["app.js"])).toEqual({ code: 0, stdout: printed, stderr: "" });
  });

  testOnNode("runs TypeScript with tsx", async () => {
    expect(await run(["node_modules/tsx/dist/cli.mjs", "app.ts"])).toEqual({ code: 0, stdout: printed, stderr: "" });
  });

  for (const module of ["nodenext", "commonjs"]) {
    testOnNode(`compiles and runs TypeScript with ts-node, module ${module}`, async () => {
      const project = module === "nodenext" ? "tsconfig.json" : "tsconfig.commonjs.json";
      const ran = await run(["node_modules/ts-node/dist/bin.js", "--project", project, "app.ts"]);
      expect(ran).toEqual({ code: 0, stdout: printed, stderr: "" });
    });
  }

  if (major === 24)
    for (const file of ["app.test.js", "app.test.ts"])
      testOnNode(`tests with Jest, which can require ESM with a flag: ${file}`, async () => {
        const { code, stderr } = await run([jest, file], { NODE_OPTIONS: "--experimental-vm-modules" });
        expect(code, stderr).toBe(0);
        expect(stderr).toContain("1 passed");
      });

  for (const file of ["app.test.js", "app.test.ts"])
    testOnNode(`tests with Jest, which transforms the package: ${file}`, async () => {
      const { code, stderr } = await run([jest, "--config", "jest.transform.config.js", file]);
      expect(code, stderr).toBe(0);
      expect(stderr).toContain("1 passed");
    });
});
