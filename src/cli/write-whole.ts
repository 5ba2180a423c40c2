import { mkdirSync, realpathSync, renameSync, rmSync, type Stats, statSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { OnceflowError } from "../exports/index.js";

/**
 * Beside it first: a process that dies here leaves the old file or the new one, never half of it. Links and modes stay.
 * What is no file (`/dev/stdout`) is written to as it is.
 */
export function writeWhole(file: string, text: string, { makeFolder = false } = {}): void {
  try {
    if (makeFolder) mkdirSync(dirname(file), { recursive: true });
    const there = statSync(file, { throwIfNoEntry: false });
    if (there !== undefined && !there.isFile()) writeFileSync(file, text);
    else replace(there === undefined ? file : realpathSync(file), text, there);
  } catch (error) {
    throw new OnceflowError(`[onceflow] ${file} cannot be written: ${reasonOf(error as NodeJS.ErrnoException)}`, {
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
  ENOENT: "there is no such folder",
  ENOTDIR: "it would be below a file",
  EEXIST: "a file is where its folder would be",
  ENOSPC: "there is no space left",
};

const reasonOf = ({ code = "", message }: NodeJS.ErrnoException): string => reasons[code] ?? message;
