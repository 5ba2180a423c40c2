import type { OptionNames } from "../core/errors/known-options.js";

// A file of its own: its types must not lead to those of unplugin, which need bundlers that an app does not have.
type Pattern = RegExp | string;

export interface PluginOptions {
  /** The folder that ids are relative to where no package.json has a name. Default: the nearest one with a package.json, from the working directory upwards. */
  readonly root?: string;
  /** Names of installed packages that are transformed, too; with regular expressions, only files whose path matches one of these. */
  readonly include?: Pattern | readonly Pattern[];
  /** Names of packages that are loaded as they are; files whose path matches a regular expression are not transformed, and must have no directives. */
  readonly exclude?: Pattern | readonly Pattern[];
  /** Directives of others that are so near to ours that they would be taken for misspelt ones. */
  readonly directives?: readonly string[];
}

export const pluginOptionNames: OptionNames<PluginOptions> = { root: true, include: true, exclude: true, directives: true };
