import { ConfigurationError } from "../index.js";
import { readTextOf } from "./read-text.js";

/** Of a file, or of the environment: on a command line everybody on the machine could read it. */
export function tokenOf(file: string | undefined): string | undefined {
  if (file === undefined) return process.env["ONCEFLOW_TOKEN"] || undefined;
  const text = readTextOf(file);
  if (typeof text !== "string")
    throw new ConfigurationError(`[onceflow] --token-file: ${file} ${text.message}`, { code: "TOKEN_UNREADABLE" });
  return text.trim();
}
