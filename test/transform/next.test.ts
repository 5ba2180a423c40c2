import { mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { withOnceflow } from "onceflow/next";
import { afterEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { temporaryFolder } from "../kit/temporary-folder.js";

interface Rule {
  readonly loaders: readonly [{ readonly loader: string; readonly options: object }];
}

interface Configured {
  readonly serverExternalPackages?: readonly string[];
  readonly reactStrictMode?: boolean;
  readonly turbopack?: { readonly root?: string; readonly rules?: Readonly<Record<string, Rule | readonly unknown[]>> };
  readonly webpack?: (config: { plugins: unknown[] }, context: { nextRuntime?: string }) => { plugins: unknown[] };
}

const configured = (config: Configured = {}, options = {}) => withOnceflow(config, options);

/** Calls the loader of a configuration as Turbopack does: with options that went through JSON. */
async function load(config: Configured, file: string, code: string): Promise<string> {
  const rule = config.turbopack?.rules?.["*.ts"] as Rule;
  const [{ loader, options }] = rule.loaders;
  const { default: run } = (await import(loader)) as { default: (this: unknown, code: string) => void };
  const [error, result] = await new Promise<[Error | null, string?]>((done) => {
    const context = {
      resourcePath: resolve(file),
      getOptions: () => JSON.parse(JSON.stringify(options)) as object,
      callback: (...answer: [Error | null, string?]) => done(answer),
    };
    run.call(context, code);
  });
  if (error) throw error;
  return result ?? "";
}

const code = 'export async function pay() {\n  "use step";\n}\n';

describe("withOnceflow", () => {
  afterEach(() => vi.unstubAllEnvs());

  test("keeps the given configuration, an object or a function", async () => {
    const given: Configured = { reactStrictMode: true, serverExternalPackages: ["sharp", "onceflow"], turbopack: { root: "/app" } };
    const config = configured(given);
    expect(config).toMatchObject({ reactStrictMode: true, serverExternalPackages: ["sharp", "onceflow"], turbopack: { root: "/app" } });
    const made = withOnceflow(async (phase: string) => ({ reactStrictMode: phase === "build" }));
    expect(await made("build", {} as never)).toMatchObject({ reactStrictMode: true, serverExternalPackages: ["onceflow"] });
    expect(configured()).toMatchObject({ serverExternalPackages: ["onceflow"] });
  });

  test("adds its rules for Turbopack to the existing ones", () => {
    const mine = { loaders: ["mine"] };
    const rules = configured({ turbopack: { rules: { "*.ts": [mine], "*.svg": [mine] } } }).turbopack?.rules;
    expect(Object.keys(rules ?? {}).sort()).toEqual(["*.js", "*.jsx", "*.mjs", "*.mts", "*.svg", "*.ts", "*.tsx"]);
    expect(rules?.["*.ts"]).toEqual([mine, rules?.["*.js"]]);
  });

  test("webpack: adds the plugin for the server, after the given function", () => {
    const config = configured({ webpack: (given) => ({ plugins: [...given.plugins, "mine"] }) });
    const plugins = (nextRuntime?: string) => config.webpack?.({ plugins: [] }, nextRuntime === undefined ? {} : { nextRuntime }).plugins;
    expect([plugins("nodejs")?.length, plugins("edge"), plugins()]).toEqual([2, ["mine"], ["mine"]]);
  });

  test("the loader does the same as the plugins, with the same options", async () => {
    const root = resolve("src");
    expect(await load(configured({}, { root }), "src/orders.ts", code)).toContain("__onceflow_hoistedStep(pay");
    expect(await load(configured({}, { root }), "src/plain.ts", "export const a = 1;")).toBe("export const a = 1;");
    expect(await load(configured({}, { root, exclude: /Orders/i }), "app/orders.ts", "export const now = () => Date.now();")).toBe(
      "export const now = () => Date.now();",
    );
    await expect(load(configured({}, { root }), "app/orders.ts", code.replace("async ", ""))).rejects.toThrow(
      /orders\.ts:1:\d+: only an async/,
    );
  });

  test("an older Next.js is built by webpack; with Turbopack it is refused, and the error says what to do", () => {
    const root = temporaryFolder(onTestFinished);
    mkdirSync(join(root, "node_modules/next"), { recursive: true });
    writeFileSync(join(root, "package.json"), "{}");
    writeFileSync(join(root, "node_modules/next/package.json"), JSON.stringify({ name: "next", version: "15.5.4" }));
    expect(Object.keys(configured({}, { root })).sort()).toEqual(["serverExternalPackages", "webpack"]);
    vi.stubEnv("TURBOPACK", "1");
    expect(() => configured({}, { root })).toThrow(/Next\.js 15 with Turbopack .*upgrade to Next\.js 16, or build with webpack/);
  });
});
