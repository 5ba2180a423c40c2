import type { Finding } from "../exports/graph.js";
import { defaultLimits } from "../graph/load/limits.js";
import { readText } from "../graph/load/read-text.js";

/** Reads a document. Returns a finding if it cannot be read. */
export async function documentText(file: string): Promise<string | Finding> {
  const text = await readText(file, defaultLimits.bytesMax);
  if (typeof text === "string") return text;
  const { code, problem, fix } = text;
  return { severity: "error", code, file, pointer: "", line: 1, column: 1, message: `cannot be read: ${problem}`, fix };
}

const bytesMax = 16 * 1024 * 1024;

/** Reads a file that is not a document: a payload or a token. */
export async function inputText(file: string): Promise<{ readonly text: string } | { readonly problem: string }> {
  const text = await readText(file, bytesMax);
  return typeof text === "string" ? { text: text.replace(/^\uFEFF/, "") } : { problem: `${file} cannot be read: ${text.problem}` };
}

/** Reads standard input, up to the same size. */
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
