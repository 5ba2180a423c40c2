import { ConfigurationError } from "../core/errors/errors.js";
import { requireOptional } from "../core/work/own-url.js";

/** The packages are optional peers: one that is missing is an error with the line that installs it. */
export function missingPackages(cause: unknown): ConfigurationError {
  return new ConfigurationError("[onceflow] onceflow/server needs two packages more: npm install hono @hono/node-server", {
    code: "MISSING_PACKAGE",
    cause,
  });
}

/**
 * Loaded at the first call. A static import would fail before any code of ours runs, with Node's own message; a top-level
 * await would keep CommonJS programs from requiring this module.
 */
export function loadHono(): typeof import("hono") {
  try {
    return requireOptional("hono") as typeof import("hono");
  } catch (error) {
    throw missingPackages(error);
  }
}
