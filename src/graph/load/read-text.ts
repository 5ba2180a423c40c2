import { readFile, stat } from "node:fs/promises";
import type { FindingCode } from "../findings/finding-codes.js";

/** Why there is no text. */
export interface Unread {
  readonly code: FindingCode;
  readonly problem: string;
  readonly fix: string;
}

/** Regular files of a bounded size only: a device or a pipe would never end. Other encodings than UTF-8 are refused, not guessed. */
export async function readText(path: string, bytesMax: number): Promise<string | Unread> {
  try {
    const info = await stat(path);
    if (!info.isFile()) return unread("it is not a file");
    if (info.size > bytesMax) return tooLarge(`it has ${info.size} bytes; ${bytesMax} are allowed`);
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(await readFile(path));
  } catch (error) {
    return unread(problemOf(error as NodeJS.ErrnoException));
  }
}

export const unread = (problem: string): Unread => ({ code: "FLOW_UNREADABLE", problem, fix: "mend the path, or the file" });

export const tooLarge = (problem: string): Unread => ({ code: "FLOW_TOO_LARGE", problem, fix: "split the document" });

function problemOf({ code, message }: NodeJS.ErrnoException): string {
  if (code === "ENOENT" || code === "ENOTDIR") return "there is no such file";
  if (code === "EACCES" || code === "EPERM") return `it may not be read (${code})`;
  if (code === "ERR_ENCODING_INVALID_ENCODED_DATA") return "it is not UTF-8";
  return code ?? message;
}
