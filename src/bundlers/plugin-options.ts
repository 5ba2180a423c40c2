import type { OptionNames } from "../core/errors/known-options.js";

// Separate file: these types must not import those of unplugin, which need the types of bundlers that an app may not have.
type Pattern = RegExp | string;

/** Options of the bundler plugins. */
export interface PluginOptions {
  /** Base folder of workflow and step ids for files without a named package.json above them. Default: the nearest folder with a package.json, from the working directory upwards. */
  readonly root?: string;
  /** Strings: names of installed packages to transform in addition to the project. Regular expressions: transform only files whose path matches one of them. */
  readonly include?: Pattern | readonly Pattern[];
  /** Strings: names of packages to leave unchanged. Regular expressions: files whose path matches are not transformed, and a directive in such a file is an error. */
  readonly exclude?: Pattern | readonly Pattern[];
  /** Directives of other tools that resemble "use workflow" or "use step" and would otherwise be reported as misspelt. */
  readonly directives?: readonly string[];
}

export const pluginOptionNames: OptionNames<PluginOptions> = { root: true, include: true, exclude: true, directives: true };
