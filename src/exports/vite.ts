import { plugin } from "../bundlers/plugin.js";
import type { PluginOptions } from "../bundlers/plugin-options.js";

export type { PluginOptions } from "../bundlers/plugin-options.js";
/**
 * Vite plugin that makes "use workflow" and "use step" work in the bundled code. Throws InvalidInputError if an option is
 * invalid; a misused directive fails the build with file, line and column.
 *
 * @example
 * // vite.config.ts
 * export default defineConfig({ plugins: [onceflow()] });
 */
export const onceflow: (options?: PluginOptions) => import("vite").Plugin = plugin.vite;
