import type { Finding } from "../exports/graph.js";
import { defaultLimits } from "../graph/load/limits.js";
import { readText } from "../graph/load/read-text.js";

/** The text of a document, or why it has none. */
export async function documentText(file: string): Promise<string | Finding> {
  const text = await readText(file, defaultLimits.bytesMax);
  if (typeof text === "string") return text;
  const { code, problem, fix } = text;
  return { severity: "error", code, file, pointer: "", line: 1, column: 1, message: `cannot be read: ${problem}`, fix };
}

const bytesMax = 16 * 1024 * 1024;

/** The text of a file that is no document: a payload, a token. */
export async function inputText(file: string): Promise<{ readonly text: string } | { readonly problem: string }> {
  const text = await readText(file, bytesMax);
  return typeof text === "string" ? { text: text.replace(/^\uFEFF/, "") } : { problem: `${file} cannot be read: ${text.problem}` };
}

/** All of standard input, within the same bound. */
export async function stdinText(): Promise<{ readonly text: string } | { readonly problem: string }> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of process.stdin as AsyncIterable<Buffer>) {
    bytes += part.length;
    if (bytes > bytesMax) return { problem: `standard input has more than ${bytesMax} bytes` };
    parts.push(part);
  }
  return { text: Buffer.concat(parts).toString("utf8") };
}
