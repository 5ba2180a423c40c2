import { plugin } from "./plugin.js";
import type { PluginOptions } from "./plugin-options.js";

export type { PluginOptions } from "./plugin-options.js";
export const onceflow: (options?: PluginOptions) => import("esbuild").Plugin = plugin.esbuild;
