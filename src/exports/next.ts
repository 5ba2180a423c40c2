export { withOnceflow } from "../bundlers/next.js";
export type { PluginOptions } from "../bundlers/plugin-options.js";
