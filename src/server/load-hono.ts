import { createRequire } from "node:module";
import { ConfigurationError } from "../core/errors/errors.js";

/** Hono and its adapter are optional peer dependencies: this error names the command that installs them. */
export function missingPackages(cause: unknown): ConfigurationError {
  return new ConfigurationError("[onceflow] onceflow/server requires hono and @hono/node-server: npm install hono @hono/node-server", {
    code: "MISSING_PACKAGE",
    cause,
  });
}

/**
 * Loads Hono at the first call. A static import of a missing package would fail with Node's message before our code runs; a
 * top-level await would prevent CommonJS programs from requiring this module.
 */
export function loadHono(): typeof import("hono") {
  try {
    return createRequire(import.meta.url)("hono") as typeof import("hono");
  } catch (error) {
    throw missingPackages(error);
  }
}
