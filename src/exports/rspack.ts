import { plugin } from "../bundlers/plugin.js";
import type { PluginOptions } from "../bundlers/plugin-options.js";

export type { PluginOptions } from "../bundlers/plugin-options.js";
/**
 * Rspack plugin that makes "use workflow" and "use step" work in the bundled code. Throws InvalidInputError if an option is
 * invalid; a misused directive fails the build with file, line and column.
 *
 * @example
 * // rspack.config.mjs
 * export default { plugins: [onceflow()] };
 */
export const onceflow: (options?: PluginOptions) => import("@rspack/core").RspackPluginInstance = plugin.rspack;
