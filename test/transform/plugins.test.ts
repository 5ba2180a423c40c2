import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { appFolder, lineOf, type Ran, runNode } from "../kit/app-folder.js";

/** The same app for all bundlers, without types if the bundler does not strip them. */
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
  if (Date.now() > 0) throw new TypeError("the step failed");
}
failing.maxRetries = 0;

export async function checkout(id: string): Promise<unknown> {
  "use workflow";
  const stopped = Date.now() === new Date().getTime();
  const charged = await charge(id);
  const shipped = await new Shipping("Oslo").ship(id);
  const failed = await failing().catch((error) => {
    console.log(error.cause.stack);
    return error.message as string;
  });
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
  /** The text of a build script; its output is out/app.mjs. `options`: those of the plugin, in JavaScript. */
  readonly script: (entry: string, options?: string, bundled?: Bundled) => string;
}

/** Packages that are bundled and not loaded by Node. */
type Bundled = "no packages" | "all packages but onceflow";

const webpackLike = (from: string, rules: string) => (entry: string, options?: string, bundled?: Bundled) =>
  `
  import * as bundler from "${from}"; import { onceflow } from "onceflow/${from.replace(/^@|\/core$/g, "")}";
  const compiler = (bundler.rspack ?? bundler.default)({ mode: "development", devtool: "source-map", target: "node20", context: process.cwd(), entry: "./src/${entry}",
    experiments: { outputModule: true }, externals: [${bundled === "all packages but onceflow" ? "/^onceflow/" : "/^[a-z]/"}], externalsType: "module", resolve: { extensions: [".ts", ".js"] }, module: { rules: ${rules} },
    output: { path: process.cwd() + "/out", filename: "app.mjs", module: true, library: { type: "module" }, devtoolModuleFilenameTemplate: "[absolute-resource-path]" }, plugins: [onceflow(${options})] });
  compiler.run((error, stats) => { const text = error ?? (stats.hasErrors() ? stats.toString({ all: false, errors: true }) : ""); if (text) console.error(String(text)); compiler.close(() => process.exit(text ? 1 : 0)); });`;

const bundlers = {
  vite: {
    language: "ts",
    script: (entry, options = "", bundled) => `
      import { build } from "vite"; import { onceflow } from "onceflow/vite";
      await build({ configFile: false, logLevel: "error", plugins: [onceflow(${options})], ${bundled === "all packages but onceflow" ? "ssr: { noExternal: [/^(?!onceflow)/] }, " : ""}build: { ssr: "src/${entry}", outDir: "out", sourcemap: true, target: "node20", rollupOptions: { external: [/^onceflow/], output: { entryFileNames: "app.mjs" } } } });`,
  },
  rollup: {
    language: "js",
    script: (entry, options = "", bundled) => `
      import { rollup } from "rollup"; import { onceflow } from "onceflow/rollup";
      const resolveId = (id) => ${bundled === "all packages but onceflow"} && id === "billing" ? process.cwd() + "/node_modules/billing/index.js" : undefined;
      const bundle = await rollup({ input: "src/${entry}", external: [/^onceflow/], plugins: [onceflow(${options}), { name: "resolve", resolveId }] });
      await bundle.write({ file: "out/app.mjs", format: "es", sourcemap: true });`,
  },
  rolldown: {
    language: "ts",
    script: (entry, options = "", bundled) => `
      import { rolldown } from "rolldown"; import { onceflow } from "onceflow/rolldown";
      const external = ${bundled === "all packages but onceflow" ? "/^onceflow/" : "/^[a-z]/"};
      const bundle = await rolldown({ input: "src/${entry}", platform: "node", external: [external], plugins: [onceflow(${options})] });
      await bundle.write({ file: "out/app.mjs", format: "es", sourcemap: true });`,
  },
  esbuild: {
    language: "ts",
    script: (entry, options = "", bundled) => `
      import { build } from "esbuild"; import { onceflow } from "onceflow/esbuild";
      const external = ${bundled === "all packages but onceflow" ? '{ external: ["onceflow"] }' : '{ packages: "external" }'};
      await build({ entryPoints: ["src/${entry}"], outfile: "out/app.mjs", bundle: true, format: "esm", platform: "node", target: "node20", ...external, sourcemap: true, plugins: [onceflow(${options})], logLevel: "error" });`,
  },
  webpack: { language: "js", script: webpackLike("webpack", "[]") },
  rspack: {
    language: "ts",
    script: webpackLike(
      "@rspack/core",
      '[{ test: /\\.ts$/, loader: "builtin:swc-loader", options: { jsc: { parser: { syntax: "typescript" }, target: "es2022" } } }]',
    ),
  },
} satisfies Readonly<Record<string, Bundler>>;

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

  test("builds an app whose directives work and whose stacks show the user's lines", async () => {
    const { folder, built } = await build(bundler, name, { app, shipping }, "app");
    expect(built.code, built.stdout + built.stderr).toBe(0);
    const { code, stdout, stderr } = await runNode(["--enable-source-maps", "out/app.mjs"], { cwd: folder });
    expect(code, stderr).toBe(0);
    const charged = `step//app//src/app.${language}//charge 1 order-1 5`;
    const failed = `step "step//app//src/app.${language}//failing" failed after its only attempt: the step failed`;
    expect(stdout).toContain(JSON.stringify([charged, "order-1 to Oslo", failed, "WRONG_CONTEXT", true]));
    const line = lineOf(app, "throw new TypeError");
    expect(stdout).toMatch(new RegExp(`TypeError: the step failed\\n\\s+at .*src/app\\.${language}:${line}:`));
  });

  test("reports where a directive is wrong, and fails", async () => {
    const { built } = await build(bundler, name, { bad }, "bad");
    expect(built.code).toBe(1);
    expect(built.stdout + built.stderr).toContain(`src/bad.${language}:2:8: only an async function can be a step`);
  });
});

const billing = {
  "node_modules/billing/package.json": '{ "name": "billing", "type": "module", "exports": "./index.js" }',
  "node_modules/billing/index.js": 'export * from "./pay.js";',
  "node_modules/billing/pay.js":
    'import { getStepMetadata } from "onceflow/workflow";\nexport async function pay() { "use step"; return getStepMetadata().stepName; }\n',
};
const payApp = `import { configure, open } from "onceflow";
import { start } from "onceflow/workflow/api";
import { pay } from "billing";
async function main() { "use workflow"; return await pay(); }
configure({ store: await open("memory:") });
console.log(await (await start(main)).returnValue);
process.exit();
`;

describe.for(Object.entries(bundlers))("a package with directives, %s", ([name, { script }]) => {
  const built = async (options: string, bundled: Bundled) => {
    const folder = appFolder({ ...billing, "src/app.js": payApp, "build.mjs": script("app.js", options, bundled) }, [
      name === "rspack" ? "@rspack" : name,
    ]);
    const { code, stdout, stderr } = await runNode(["build.mjs"], { cwd: folder });
    return { folder, code, text: stdout + stderr };
  };

  test("is refused if it is not included, even if it is external", async () => {
    for (const bundled of ["all packages but onceflow", "no packages"] as const) {
      const { code, text } = await built("", bundled);
      expect([code, bundled]).toEqual([1, bundled]);
      expect(text).toMatch(/billing\/pay\.js.*this file has directives, but package "billing" is not transformed/);
    }
  });

  test("is transformed if it is named, and must not be external then", async () => {
    const bundled = await built('{ include: ["billing"] }', "all packages but onceflow");
    expect(bundled.code, bundled.text).toBe(0);
    expect((await runNode(["out/app.mjs"], { cwd: bundled.folder })).stdout).toBe("step//billing//pay.js//pay\n");
    const external = await built('{ include: "billing" }', "no packages");
    // Vite asks the plugin which packages must not be external.
    if (name === "vite") expect((await runNode(["out/app.mjs"], { cwd: external.folder })).stdout).toBe("step//billing//pay.js//pay\n");
    else expect(external.text).toContain('package "billing" has directives and is external');
  });

  test("is left unchanged if it is excluded by its name", async () => {
    const { code, text } = await built('{ exclude: "billing" }', "no packages");
    expect(code, text).toBe(0);
  });
});

test("a CommonJS package cannot be transformed: bundled or not, named or not, the advice is to write a step around it", async () => {
  const files = {
    "node_modules/billing/package.json": '{ "name": "billing" }',
    "node_modules/billing/index.js": 'exports.pay = require("./pay.js");',
    "node_modules/billing/pay.js": 'module.exports = async () => { "use step"; };',
    "src/app.js": 'import { pay } from "billing"; console.log(pay);',
  };
  const built = async (options: string, bundled: Bundled) => {
    const cwd = appFolder({ ...files, "build.mjs": bundlers.esbuild.script("app.js", options, bundled) }, ["esbuild"]);
    return await runNode(["build.mjs"], { cwd });
  };
  for (const options of ["", '{ include: "billing" }'])
    for (const bundled of ["all packages but onceflow", "no packages"] as const) {
      const { code, stderr } = await built(options, bundled);
      expect([code, options, bundled]).toEqual([1, options, bundled]);
      expect(stderr).toMatch(/pay\.js.*package \\?"billing\\?" is CommonJS[\s\S]*step in your own code/);
      expect(stderr).not.toContain("include: [");
    }
  expect((await built('{ exclude: "billing" }', "no packages")).code).toBe(0);
});

test("the vite plugin works in vitest", async () => {
  const folder = appFolder(
    {
      "vitest.config.ts":
        'import { onceflow } from "onceflow/vite"; export default { plugins: [onceflow()], test: { include: ["*.spec.ts"] } };',
      "app.ts":
        'export async function f(n: number) { "use step"; return n; }\nexport async function main() { "use workflow"; return [await f(2), Date.now() === new Date().getTime()]; }',
      "app.spec.ts": `import { open } from "onceflow"; import { work } from "onceflow/workflow"; import { readJournal, start } from "onceflow/workflow/api"; import { expect, test } from "vitest"; import { main } from "./app";
        test("runs", async () => { const store = await open("memory:"); const worker = await work(store); const run = await start(main, [], { store });
          expect(await run.returnValue).toEqual([2, true]); expect((await readJournal(run.id, { store }))[0]?.id).toBe("step//app//app.ts//f#0"); await worker.stop(); await store.close(); });`,
    },
    ["vitest", "vite"],
  );
  const { code, stdout, stderr } = await runNode(["node_modules/vitest/vitest.mjs", "run"], { cwd: folder });
  expect(code, stdout + stderr).toBe(0);
  expect(stdout).toMatch(/1 passed/);
});

test("vitest loads packages with Node: one with directives is refused, or transformed if it is included", async () => {
  const spec = `import { open } from "onceflow"; import { work } from "onceflow/workflow"; import { start } from "onceflow/workflow/api"; import { expect, test } from "vitest"; import { pay } from "billing";
    async function main() { "use workflow"; return await pay(); }
    test("runs", async () => { const store = await open("memory:"); const worker = await work(store); const run = await start(main, [], { store });
      expect(await run.returnValue).toBe("step//billing//pay.js//pay"); await worker.stop(); await store.close(); });`;
  const ran = async (options: string, manifest: object) => {
    const files = {
      ...billing,
      "package.json": '{ "name": "app", "type": "module", "dependencies": { "billing": "*" } }',
      "node_modules/billing/package.json": JSON.stringify({ ...JSON.parse(billing["node_modules/billing/package.json"]), ...manifest }),
      "vitest.config.ts": `import { onceflow } from "onceflow/vite"; export default { plugins: [onceflow(${options})], test: { include: ["*.spec.ts"] } };`,
      "app.spec.ts": spec,
    };
    const { code, stdout, stderr } = await runNode(["node_modules/vitest/vitest.mjs", "run"], {
      cwd: appFolder(files, ["vitest", "vite"]),
    });
    return { code, text: stdout + stderr };
  };
  const refused = await ran("", {});
  expect(refused.code).toBe(1);
  expect(refused.text).toContain('this file has directives, but package "billing" is not transformed');
  const included = await ran('{ include: "billing" }', {});
  expect(included.code, included.text).toBe(0);
  const chosen = await ran("", { onceflow: { directives: true } });
  expect(chosen.code, chosen.text).toBe(0);
});

test("a build for browsers has no modules of Node", async () => {
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

test("an unknown option is an error with a suggestion, in every plugin", async () => {
  const unknown = { includes: ["billing"] } as object;
  const suggestion = 'onceflow: includes: is not an option; did you mean "include"?';
  const versions = { version: "", rspackVersion: "" };
  const compiler = { options: {}, hooks: {}, webpack: versions, rspack: versions };
  const plugins = {
    vite: async () => (await import("onceflow/vite")).onceflow(unknown),
    rollup: async () => (await import("onceflow/rollup")).onceflow(unknown),
    rolldown: async () => (await import("onceflow/rolldown")).onceflow(unknown),
    esbuild: async () => (await import("onceflow/esbuild")).onceflow(unknown),
    webpack: async () => (await import("onceflow/webpack")).onceflow(unknown).apply(compiler as never),
    rspack: async () => (await import("onceflow/rspack")).onceflow(unknown).apply(compiler as never),
  };
  for (const [name, made] of Object.entries(plugins)) await expect(made(), name).rejects.toThrow(suggestion);
  const { withOnceflow } = await import("onceflow/next");
  const config = (options: object) => () => withOnceflow({}, options);
  expect(config(unknown)).toThrow('withOnceflow: includes: is not an option; did you mean "include"?');
  // Before Next.js asks for the configuration.
  expect(() => withOnceflow(() => ({}), unknown)).toThrow("withOnceflow: includes");
  const { workflow, waitForHook, waitForSleep } = await import("onceflow/workflow/vitest");
  const run = {} as Parameters<typeof waitForSleep>[0];
  await expect(waitForHook(run, { tokne: "a" } as object)).rejects.toThrow('waitForHook: tokne: is not an option; did you mean "token"?');
  await expect(waitForSleep(run, { timeoutMs: 5 } as object)).rejects.toThrow("waitForSleep: timeoutMs: is not an option");
  expect(() => workflow(unknown)).toThrow('workflow: includes: is not an option; did you mean "include"?');
  expect(() => workflow({ cwd: ".", rootDir: ".", dataDir: ".", outDir: "." })).not.toThrow();
  const { transform } = await import("onceflow/transform");
  const options = { file: "/a.ts", root: "/", directive: ["use stop"] };
  expect(() => transform("", options)).toThrow('transform: directive: is not an option; did you mean "directives"?');
});

test("files can be included and excluded", async () => {
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
  const errorWith = async (options: string) => {
    writeFileSync(join(folder, "build.mjs"), script(options));
    return (await runNode(["build.mjs"], { cwd: folder })).stderr;
  };
  expect(await codeWith('{ root: "src" }')).toMatch(/"step\/\/a\.js\/\/f"[\s\S]*dateNow|dateNow[\s\S]*"step\/\/a\.js\/\/f"/);
  expect(await codeWith("{ exclude: /b\\.js$/ }")).toContain("console.log(Date.now())");
  expect(
    (await runNode(["-e", 'import("onceflow/vite").then(({ onceflow }) => onceflow({ include: "./src" }))'], { cwd: folder })).stderr,
  ).toContain("include: must be a regular expression");
  // The other file has a directive, and would be loaded untransformed.
  expect(await errorWith("{ include: [/b\\.js$/] }")).toContain(
    "src/a.js:1:46: this file has directives, but the options include and exclude leave it out",
  );
  expect(await errorWith("{ exclude: /a\\.js$/ }")).toContain("src/a.js:1:46: this file has directives");
  expect(await codeWith('{ exclude: "app" }')).toContain('"use step"');
});
