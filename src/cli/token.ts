import { ConfigurationError } from "../exports/index.js";
import { inputText } from "./read-text.js";

/** Reads the token from a file or from ONCEFLOW_TOKEN, not from an argument: other users can see the arguments of a process. */
export async function tokenOf(file: string | undefined): Promise<string | undefined> {
  if (file === undefined) return process.env["ONCEFLOW_TOKEN"] || undefined;
  const from = await inputText(file);
  if ("problem" in from) throw new ConfigurationError(`[onceflow] --token-file: ${from.problem}`, { code: "TOKEN_UNREADABLE" });
  return from.text.trim();
}
