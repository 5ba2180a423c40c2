import { plugin } from "../bundlers/plugin.js";
import type { PluginOptions } from "../bundlers/plugin-options.js";

export type { PluginOptions } from "../bundlers/plugin-options.js";
export const onceflow: (options?: PluginOptions) => import("esbuild").Plugin = plugin.esbuild;
