import { withOnceflow } from "onceflow/next";

/** Enables directives and keeps onceflow out of the bundle, so that instrumentation and routes share one store and one worker. */
export default withOnceflow({ serverExternalPackages: ["@photostructure/sqlite"] });
