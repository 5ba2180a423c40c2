import { resolve } from "node:path";
import { createUnplugin } from "unplugin";
import { InvalidInputError } from "../core/errors/errors.js";
import { knownOptions } from "../core/errors/known-options.js";
import { patternsOf, treatmentOf } from "../transform/choice.js";
import { TransformError } from "../transform/errors.js";
import { Externals } from "../transform/load/external.js";
import { esbuildSetup, rollupModuleParsed, webpackHook } from "../transform/load/external-hooks.js";
import { isProjectFile, projectRoot } from "../transform/load/project.js";
import { refuseDirectives } from "../transform/load/untransformed.js";
import { transform } from "../transform/transform.js";
import { type PluginOptions, pluginOptionNames } from "./plugin-options.js";

/** The plugin for all bundlers. It transforms source files before other plugins do, and reports errors with file, line and column. */
export const plugin = createUnplugin<PluginOptions | undefined, false>((options = {}) => {
  knownOptions("onceflow", options, pluginOptionNames);
  const root = options.root === undefined ? projectRoot() : resolve(options.root);
  const choice = { include: patternsOf("include", options.include), exclude: patternsOf("exclude", options.exclude) };
  const directives = textsOf("directives", options.directives);
  const externals = new Externals(choice);
  const noExternal = externals.mustBundle(root);
  const moduleParsed = rollupModuleParsed(externals);
  /** In serve mode, Vite and Vitest do not report which modules they leave to Node, so imports are checked file by file. */
  let isServing = false;
  const treated = (code: string, file: string) => {
    const treatment = treatmentOf(file, choice);
    if (treatment === "check") refuseDirectives(code, { file, root });
    if (isServing && isProjectFile(file)) externals.refuseImports(code, file, noExternal);
    return treatment === "transform" ? transform(code, { file, root, directives }) : undefined;
  };
  return {
    name: "onceflow",
    enforce: "pre" as const,
    transform: {
      filter: { id: /\.(?:[mc]?[jt]s|[jt]sx)(?:\?|$)/ },
      handler(code: string, id: string) {
        // Ids that begin with a NUL character are virtual modules of other plugins.
        if (id.startsWith("\0")) return undefined;
        const file = resolve(id.replace(/[?#].*$/, ""));
        try {
          return treated(code, file);
        } catch (error) {
          if (!(error instanceof TransformError)) throw error;
          const { message, line, column } = error;
          return this.error({ id, message, loc: { file, line, column: column - 1 } });
        }
      },
    },
    rollup: { moduleParsed },
    rolldown: { moduleParsed },
    vite: {
      config: () => ({ ssr: { noExternal } }),
      configResolved({ command }) {
        isServing = command === "serve";
      },
      moduleParsed,
    },
    webpack: webpackHook(externals),
    rspack: webpackHook(externals),
    esbuild: { setup: esbuildSetup(externals) },
  };
});

function textsOf(option: string, given: readonly string[] = []): readonly string[] {
  if (!Array.isArray(given) || !given.every((each) => typeof each === "string"))
    throw new InvalidInputError(option, "must be an array of strings");
  return given;
}
