import { ConfigurationError } from "../exports/index.js";
import { inputText } from "./read-text.js";

/** Of a file, or of the environment: on a command line everybody on the machine could read it. */
export async function tokenOf(file: string | undefined): Promise<string | undefined> {
  if (file === undefined) return process.env["ONCEFLOW_TOKEN"] || undefined;
  const from = await inputText(file);
  if ("problem" in from) throw new ConfigurationError(`[onceflow] --token-file: ${from.problem}`, { code: "TOKEN_UNREADABLE" });
  return from.text.trim();
}
