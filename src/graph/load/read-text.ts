import { readFile, stat } from "node:fs/promises";
import type { FindingCode } from "../findings/finding-codes.js";

/** Why a file could not be read. */
export interface Unread {
  readonly code: FindingCode;
  readonly problem: string;
  readonly fix: string;
}

/** Reads a regular UTF-8 file of limited size. Devices and pipes, which may never end, and other encodings are rejected. */
export async function readText(path: string, bytesMax: number): Promise<string | Unread> {
  try {
    const info = await stat(path);
    if (!info.isFile()) return unread("it is not a file");
    if (info.size > bytesMax) return tooLarge(`it has ${info.size} bytes; the maximum is ${bytesMax}`);
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(await readFile(path));
  } catch (error) {
    return unread(problemOf(error as NodeJS.ErrnoException));
  }
}

export const unread = (problem: string): Unread => ({ code: "FLOW_UNREADABLE", problem, fix: "correct the path or the file" });

export const tooLarge = (problem: string): Unread => ({ code: "FLOW_TOO_LARGE", problem, fix: "split the document" });

function problemOf({ code, message }: NodeJS.ErrnoException): string {
  if (code === "ENOENT" || code === "ENOTDIR") return "no such file";
  if (code === "EACCES" || code === "EPERM") return `permission denied (${code})`;
  if (code === "ERR_ENCODING_INVALID_ENCODED_DATA") return "it is not UTF-8";
  return code ?? message;
}
