import { plugin } from "../bundlers/plugin.js";
import type { PluginOptions } from "../bundlers/plugin-options.js";

export type { PluginOptions } from "../bundlers/plugin-options.js";
/**
 * webpack plugin that makes "use workflow" and "use step" work in the bundled code. Throws InvalidInputError if an option is
 * invalid; a misused directive fails the build with file, line and column.
 *
 * @example
 * // webpack.config.mjs
 * export default { plugins: [onceflow()] };
 */
export const onceflow: (options?: PluginOptions) => import("webpack").WebpackPluginInstance = plugin.webpack;
