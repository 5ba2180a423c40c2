import { fileURLToPath } from "node:url";
import { knownOptions, type OptionNames } from "../core/errors/known-options.js";
import { plugin } from "./plugin.js";
import { type PluginOptions, pluginOptionNames } from "./plugin-options.js";

/** Options of the Vitest plugin {@link workflow}. */
export interface WorkflowTestOptions extends PluginOptions {
  /** The same as `root`. */
  readonly cwd?: string;
  /** Ignored; accepted for configurations written for the Workflow DevKit. The plugin writes no files. */
  readonly rootDir?: string;
  /** Ignored; accepted for compatibility. Tests use a store in memory, unless ONCEFLOW_URL names another. */
  readonly dataDir?: string;
  /** Ignored; accepted for compatibility. The plugin has no build step. */
  readonly outDir?: string;
}

const optionNames: OptionNames<WorkflowTestOptions> = { ...pluginOptionNames, cwd: true, rootDir: true, dataDir: true, outDir: true };

/** A Vite plugin that only adds to the Vitest configuration. */
interface SetupPlugin {
  readonly name: string;
  readonly config: () => { readonly test: { readonly setupFiles: string[] } };
}

/**
 * Plugins for vitest.config.ts. Directives work in tests and in the modules they import, and each test file gets its own
 * store in memory, with a worker. Throws InvalidInputError if an option is invalid.
 *
 * @example
 * export default defineConfig({ plugins: [workflow()] });
 */
export function workflow(given: WorkflowTestOptions = {}): [import("vite").Plugin, SetupPlugin] {
  knownOptions("workflow", given, optionNames);
  const { cwd, rootDir: _1, dataDir: _2, outDir: _3, ...options } = given;
  const root = options.root ?? cwd;
  const setup = fileURLToPath(new URL("./vitest-setup.js", import.meta.url));
  return [
    plugin.vite({ ...options, ...(root === undefined ? {} : { root }) }),
    { name: "onceflow:vitest", config: () => ({ test: { setupFiles: [setup] } }) },
  ];
}
