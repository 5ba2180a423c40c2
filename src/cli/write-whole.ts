import { mkdirSync, realpathSync, renameSync, rmSync, type Stats, statSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { OnceflowError } from "../exports/index.js";

/**
 * Writes a temporary file and renames it: a process that dies here leaves the old file or the new one, never a partial file.
 * Links and file modes are kept. A target that is not a regular file (`/dev/stdout`) is written directly.
 */
export function writeWhole(file: string, text: string, { makeFolder = false } = {}): void {
  try {
    if (makeFolder) mkdirSync(dirname(file), { recursive: true });
    const there = statSync(file, { throwIfNoEntry: false });
    if (there !== undefined && !there.isFile()) writeFileSync(file, text);
    else replace(there === undefined ? file : realpathSync(file), text, there);
  } catch (error) {
    throw new OnceflowError(`[onceflow] cannot write ${file}: ${reasonOf(error as NodeJS.ErrnoException)}`, {
      code: "UNWRITABLE",
      cause: error,
    });
  }
}

function replace(target: string, text: string, there: Stats | undefined): void {
  const beside = `${target}.${process.pid}.tmp`;
  try {
    writeFileSync(beside, text, there && { mode: there.mode });
    renameSync(beside, target);
  } catch (error) {
    rmSync(beside, { force: true });
    throw error;
  }
}

const reasons: Readonly<Record<string, string>> = {
  EISDIR: "it is a folder",
  ENOENT: "its folder does not exist",
  ENOTDIR: "part of its path is a file, not a folder",
  EEXIST: "a file has the name of its folder",
  ENOSPC: "no space left on the device",
};

const reasonOf = ({ code = "", message }: NodeJS.ErrnoException): string => reasons[code] ?? message;
