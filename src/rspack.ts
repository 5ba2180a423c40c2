import { plugin } from "./plugin.js";

export type { PluginOptions } from "./plugin.js";
export const onceflow = plugin.rspack;
