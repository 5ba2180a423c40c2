import { plugin } from "../bundlers/plugin.js";
import type { PluginOptions } from "../bundlers/plugin-options.js";

export type { PluginOptions } from "../bundlers/plugin-options.js";
export const onceflow: (options?: PluginOptions) => import("rolldown").Plugin = plugin.rolldown;
