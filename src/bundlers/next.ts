import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { ConfigurationError } from "../core/errors/errors.js";
import { knownOptions } from "../core/errors/known-options.js";
import { projectRoot } from "../transform/load/project.js";
import { plugin } from "./plugin.js";
import { type PluginOptions, pluginOptionNames } from "./plugin-options.js";

interface WebpackConfig {
  readonly plugins: unknown[];
}

/** The parts of the Next.js configuration that `withOnceflow` extends. */
interface NextConfig {
  serverExternalPackages?: readonly string[];
  webpack?: ((config: WebpackConfig, context: { readonly nextRuntime?: string }) => WebpackConfig) | null | undefined;
  turbopack?: { rules?: Record<string, unknown> } | undefined;
}

type ConfigFunction<Config> = (phase: string, context: never) => Config | Promise<Config>;

const extensions = ["ts", "tsx", "mts", "js", "jsx", "mjs"];
/** Matches files that the transform may have to change or report, including misspelt directives. Turbopack tests every file against it before it calls the loader. */
const mayNeedTransform =
  /Date|random|set(?:Timeout|Interval|Immediate)|fetch|["'`]\s*[sS]?[uU][^"'`\\\n]{4,18}["'`]|WORKFLOW_SERIALIZE|workflow-serialize/;
/** The same for files of installed packages: only files that may contain directives. */
const mayHaveDirectives = /["'`]use (?:workflow|step)["'`]/;

/**
 * Wraps the configuration of Next.js so that directives work in server files, built by Turbopack (Next.js 16 or later) or by
 * webpack. onceflow itself is not bundled, so that routes and instrumentation share one store and one worker. Throws
 * ConfigurationError if Turbopack is used with an older Next.js.
 *
 * @example
 * // next.config.mjs
 * export default withOnceflow({ reactStrictMode: true });
 */
export function withOnceflow<Config extends object>(
  config: ConfigFunction<Config>,
  options?: PluginOptions,
): (phase: string, context: never) => Promise<Config>;
export function withOnceflow<Config extends object>(config?: Config, options?: PluginOptions): Config;
export function withOnceflow(config: object | ConfigFunction<object> = {}, options: PluginOptions = {}): unknown {
  knownOptions("withOnceflow", options, pluginOptionNames);
  if (typeof config !== "function") return extended(config, options);
  return async (phase: string, context: never) => extended(await config(phase, context), options);
}

function extended(config: NextConfig, options: PluginOptions): NextConfig {
  const root = options.root ?? projectRoot();
  const major = nextMajor(root);
  if (major !== undefined && major < 16 && process.env["TURBOPACK"])
    throw new ConfigurationError(
      `[onceflow] Next.js ${major} with Turbopack cannot transform directives; upgrade to Next.js 16, or build with webpack (omit --turbopack)`,
      { code: "TURBOPACK_TOO_OLD" },
    );
  const external = new Set([...(config.serverExternalPackages ?? []), "onceflow"]);
  return {
    ...config,
    serverExternalPackages: [...external],
    webpack: withPlugin(config.webpack, { ...options, root }),
    ...(major !== undefined && major < 16 ? {} : { turbopack: withRules(config.turbopack, { ...options, root }) }),
  };
}

function withPlugin(given: NextConfig["webpack"], options: PluginOptions): NonNullable<NextConfig["webpack"]> {
  return (config, context) => {
    const configured = typeof given === "function" ? given(config, context) : config;
    // Workflows run only on Node.js, not in the browser and not on the edge runtime.
    if (context.nextRuntime === "nodejs") configured.plugins.push(plugin.webpack(options));
    return configured;
  };
}

function withRules(given: NextConfig["turbopack"], options: PluginOptions): NonNullable<NextConfig["turbopack"]> {
  const loader = { loader: fileURLToPath(new URL("./next-loader.js", import.meta.url)), options: { onceflow: asJson(options) } };
  const content = [{ all: [{ not: "foreign" }, { content: mayNeedTransform }] }, { all: ["foreign", { content: mayHaveDirectives }] }];
  const rule = { loaders: [loader], condition: { all: ["node", { any: content }] } };
  const rules: Record<string, unknown> = { ...given?.rules };
  for (const extension of extensions) {
    const glob = `*.${extension}`;
    rules[glob] = rules[glob] === undefined ? rule : [...[rules[glob]].flat(), rule];
  }
  return { ...given, rules };
}

/** Turbopack passes options to loaders as JSON; a regular expression is encoded as `{ regexp: [source, flags] }`. */
function asJson(options: PluginOptions): string {
  return JSON.stringify(options, (_, value: unknown) => (value instanceof RegExp ? { regexp: [value.source, value.flags] } : value));
}

/** Undefined if Next.js is not installed; Next.js itself reports that. */
function nextMajor(root: string): number | undefined {
  try {
    const file = createRequire(join(root, "package.json")).resolve("next/package.json");
    const { version } = JSON.parse(readFileSync(file, "utf8")) as { readonly version: string };
    return Number.parseInt(version, 10);
  } catch {
    return undefined;
  }
}
