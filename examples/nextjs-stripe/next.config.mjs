import { onceflow } from "onceflow/webpack";

/** Not bundled: instrumentation and routes must have one and the same onceflow, with one store and one worker. */
export default {
  serverExternalPackages: ["onceflow", "@photostructure/sqlite"],
  webpack(config) {
    config.plugins.push(onceflow());
    return config;
  },
};
