import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { appFolder, lineOf, type Ran, runNode } from "./app-folder.js";

/** The same app for all of them; where the bundler does not strip types, without its types. */
const app = `import { configure, open } from "onceflow";
import { getStepMetadata } from "onceflow/workflow";
import { start } from "onceflow/workflow/api";
import { Shipping } from "./shipping";

async function charge(id: string, amount = 5): Promise<string> {
  "use step";
  const { stepName, attempt } = getStepMetadata();
  return \`\${stepName} \${attempt} \${id} \${amount}\`;
}

async function failing(): Promise<void> {
  "use step";
  try {
    throw new TypeError("the step failed");
  } catch (error) {
    console.log((error as Error).stack);
    throw error;
  }
}
failing.maxRetries = 0;

export async function checkout(id: string): Promise<unknown> {
  "use workflow";
  const stopped = Date.now() === new Date().getTime();
  const charged = await charge(id);
  const shipped = await new Shipping("Oslo").ship(id);
  const failed = await failing().catch((error) => error.message as string);
  const refused = await (async () => fetch("data:,x"))().catch((error) => error.code as string);
  return [charged, shipped, failed, refused, stopped];
}

configure({ store: await open("memory:") });
const run = await start(checkout, ["order-1"], { id: "checkout:1" });
console.log(JSON.stringify(await run.returnValue));
process.exit();
`;
const shipping = `export class Shipping {
  readonly to: string;
  constructor(to: string) {
    this.to = to;
  }
  async ship(id: string): Promise<string> {
    "use step";
    return \`\${id} to \${this.to}\`;
  }
}
`;
const bad = 'export const a = 1;\nexport function f() {\n  "use step";\n}\n';

const untyped = (code: string) =>
  code
    .replace('"./shipping"', '"./shipping.js"')
    .replace(/ as (?:Error|string)\b/g, "")
    .replace(/\): Promise<\w+>/g, ")")
    .replaceAll("readonly to: string;", "to;")
    .replaceAll(": string", "");

interface Bundler {
  readonly language: "ts" | "js";
  /** The text of a build script; its entry and output are app and out/app.mjs, or what it is told. */
  readonly script: (entry: string) => string;
}

const webpackLike = (from: string, rules: string) => (entry: string) =>
  `
  import * as bundler from "${from}"; import { onceflow } from "onceflow/${from.replace(/^@|\/core$/g, "")}";
  const compiler = (bundler.rspack ?? bundler.default)({ mode: "development", devtool: "source-map", target: "node20", context: process.cwd(), entry: "./src/${entry}",
    experiments: { outputModule: true }, externals: [/^onceflow/], externalsType: "module", resolve: { extensions: [".ts", ".js"] }, module: { rules: ${rules} },
    output: { path: process.cwd() + "/out", filename: "app.mjs", module: true, library: { type: "module" }, devtoolModuleFilenameTemplate: "[absolute-resource-path]" }, plugins: [onceflow()] });
  compiler.run((error, stats) => { const text = error ?? (stats.hasErrors() ? stats.toString({ all: false, errors: true }) : ""); if (text) console.error(String(text)); compiler.close(() => process.exit(text ? 1 : 0)); });`;

const bundlers: Readonly<Record<string, Bundler>> = {
  vite: {
    language: "ts",
    script: (entry) => `
      import { build } from "vite"; import { onceflow } from "onceflow/vite";
      await build({ configFile: false, logLevel: "error", plugins: [onceflow()], build: { ssr: "src/${entry}", outDir: "out", sourcemap: true, target: "node20", rollupOptions: { external: [/^onceflow/], output: { entryFileNames: "app.mjs" } } } });`,
  },
  rollup: {
    language: "js",
    script: (entry) => `
      import { rollup } from "rollup"; import { onceflow } from "onceflow/rollup";
      const bundle = await rollup({ input: "src/${entry}", external: [/^onceflow/], plugins: [onceflow()] });
      await bundle.write({ file: "out/app.mjs", format: "es", sourcemap: true });`,
  },
  rolldown: {
    language: "ts",
    script: (entry) => `
      import { rolldown } from "rolldown"; import { onceflow } from "onceflow/rolldown";
      const bundle = await rolldown({ input: "src/${entry}", platform: "node", external: [/^onceflow/], plugins: [onceflow()] });
      await bundle.write({ file: "out/app.mjs", format: "es", sourcemap: true });`,
  },
  esbuild: {
    language: "ts",
    script: (entry) => `
      import { build } from "esbuild"; import { onceflow } from "onceflow/esbuild";
      await build({ entryPoints: ["src/${entry}"], outfile: "out/app.mjs", bundle: true, format: "esm", platform: "node", target: "node20", packages: "external", sourcemap: true, plugins: [onceflow()], logLevel: "error" });`,
  },
  webpack: { language: "js", script: webpackLike("webpack", "[]") },
  rspack: {
    language: "ts",
    script: webpackLike(
      "@rspack/core",
      '[{ test: /\\.ts$/, loader: "builtin:swc-loader", options: { jsc: { parser: { syntax: "typescript" }, target: "es2022" } } }]',
    ),
  },
};

async function build(
  { language, script }: Bundler,
  name: string,
  files: Record<string, string>,
  entry: string,
): Promise<{ folder: string; built: Ran }> {
  const texts = Object.entries(files).map(([file, text]) => [`src/${file}.${language}`, language === "js" ? untyped(text) : text] as const);
  const folder = appFolder(Object.fromEntries(texts), name === "rspack" ? ["@rspack"] : [name]);
  writeFileSync(join(folder, "build.mjs"), script(`${entry}.${language}`));
  return { folder, built: await runNode(["build.mjs"], { cwd: folder }) };
}

describe.for(Object.entries(bundlers))("%s", ([name, bundler]) => {
  const { language } = bundler;

  test("builds an app whose directives work, and whose stacks show the user's lines", async () => {
    const { folder, built } = await build(bundler, name, { app, shipping }, "app");
    expect(built.code, built.stdout + built.stderr).toBe(0);
    const { code, stdout, stderr } = await runNode(["--enable-source-maps", "out/app.mjs"], { cwd: folder });
    expect(code, stderr).toBe(0);
    const charged = `step//src/app.${language}//charge 1 order-1 5`;
    const failed = `step "step//src/app.${language}//failing" failed after its only attempt: the step failed`;
    expect(stdout).toContain(JSON.stringify([charged, "order-1 to Oslo", failed, "WRONG_CONTEXT", true]));
    const line = lineOf(app, "throw new TypeError");
    expect(stdout).toMatch(new RegExp(`TypeError: the step failed\\n\\s+at .*src/app\\.${language}:${line}:11`));
  });

  test("says where a directive is wrong, and fails", async () => {
    const { built } = await build(bundler, name, { bad }, "bad");
    expect(built.code).toBe(1);
    expect(built.stdout + built.stderr).toContain(`src/bad.${language}:2:8: only an async function can be a step`);
  });
});

test("vitest, by the plugin for vite", async () => {
  const folder = appFolder(
    {
      "vitest.config.ts":
        'import { onceflow } from "onceflow/vite"; export default { plugins: [onceflow()], test: { include: ["*.spec.ts"] } };',
      "app.ts":
        'export async function f(n: number) { "use step"; return n; }\nexport async function main() { "use workflow"; return [await f(2), Date.now() === new Date().getTime()]; }',
      "app.spec.ts": `import { open } from "onceflow"; import { work } from "onceflow/workflow"; import { readJournal, start } from "onceflow/workflow/api"; import { expect, test } from "vitest"; import { main } from "./app";
        test("runs", async () => { const store = await open("memory:"); const worker = await work(store); const run = await start(main, [], { store });
          expect(await run.returnValue).toEqual([2, true]); expect((await readJournal(run.id, { store }))[0]?.id).toBe("step//app.ts//f#0"); await worker.stop(); await store.close(); });`,
    },
    ["vitest", "vite"],
  );
  const { code, stdout, stderr } = await runNode(["node_modules/vitest/vitest.mjs", "run"], { cwd: folder });
  expect(code, stdout + stderr).toBe(0);
  expect(stdout).toMatch(/1 passed/);
});

test("in a build for browsers nothing of Node's comes along", async () => {
  const folder = appFolder(
    {
      "app.ts":
        'async function f() { "use step"; return typeof fetch; }\nconsole.log(await f(), Date.now() > 0, crypto.randomUUID().length);',
      "build.mjs": `import { build } from "esbuild"; import { onceflow } from "onceflow/esbuild";
      await build({ entryPoints: ["app.ts"], outfile: "out.mjs", bundle: true, format: "esm", platform: "browser", target: "es2022", plugins: [onceflow()], logLevel: "error" });`,
    },
    ["esbuild"],
  );
  const built = await runNode(["build.mjs"], { cwd: folder });
  expect(built.code, built.stderr).toBe(0);
  expect(readFileSync(join(folder, "out.mjs"), "utf8")).not.toContain("node:");
  expect((await runNode(["out.mjs"], { cwd: folder })).stdout).toBe("function true 36\n");
});

test("files can be chosen", async () => {
  const script = (options: string) => `import { rollup } from "rollup"; import { onceflow } from "onceflow/rollup";
    const { output } = await (await rollup({ input: "src/a.js", external: [/^onceflow/], plugins: [onceflow(${options})] })).generate({}); console.log(output[0].code);`;
  const folder = appFolder(
    { "src/a.js": 'import "./b.js"; export async function f() { "use step"; }', "src/b.js": "console.log(Date.now());" },
    ["rollup"],
  );
  const codeWith = async (options: string) => {
    writeFileSync(join(folder, "build.mjs"), script(options));
    return (await runNode(["build.mjs"], { cwd: folder })).stdout;
  };
  expect(await codeWith('{ root: "src" }')).toMatch(/"step\/\/a\.js\/\/f"[\s\S]*dateNow|dateNow[\s\S]*"step\/\/a\.js\/\/f"/);
  expect(await codeWith("{ exclude: /b\\.js$/ }")).toContain("console.log(Date.now())");
  expect(await codeWith("{ include: [/b\\.js$/] }")).toContain('"use step"');
});
