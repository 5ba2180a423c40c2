import { withOnceflow } from "onceflow/next";

/** Directives work, and onceflow is not bundled: instrumentation and routes share one store and one worker. */
export default withOnceflow({ serverExternalPackages: ["@photostructure/sqlite"] });
