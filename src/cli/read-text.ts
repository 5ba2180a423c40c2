import { readFileSync, statSync } from "node:fs";
import type { Finding } from "../graph.js";

const bytesMax = 16 * 1024 * 1024;

/** The text of a file, or why it has none. A pipe or a device would be read for ever; what is too large is refused later, with its size. */
export function readTextOf(file: string): string | Finding {
  try {
    const info = statSync(file);
    if (!info.isFile()) return unread(file, "it is not a file");
    if (info.size > bytesMax) return unread(file, `it has ${info.size} bytes`);
    return readFileSync(file, "utf8");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return unread(file, code === "ENOENT" ? "there is no such file" : String(code));
  }
}

const unread = (file: string, why: string): Finding => ({
  severity: "error",
  code: "FLOW_UNREADABLE",
  file,
  pointer: "",
  line: 1,
  column: 1,
  message: `cannot be read: ${why}`,
  fix: "mend the path, or the file",
});
