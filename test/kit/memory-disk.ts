import { chmodSync, mkdtempSync, readdirSync, rmSync, statfsSync } from "node:fs";
import { join } from "node:path";

const prefix = "onceflow-tests-";
const roomBytesMin = 4_000_000_000;

/**
 * Vitest's global set-up: databases of the tests are in memory if there is space. A killed process loses nothing that it
 * wrote there, and a sync takes a twentieth of the time that a disk needs. A TMPDIR that is already set is kept.
 */
export function setup(): (() => void) | undefined {
  if (process.env["TMPDIR"] !== undefined) return undefined;
  const folder = memoryFolder("/dev/shm", roomBytesMin);
  if (folder === undefined) return undefined;
  process.env["TMPDIR"] = folder;
  return () => {
    delete process.env["TMPDIR"];
    rmSync(folder, { recursive: true, force: true });
  };
}

/** A new folder below `root`, or undefined if `root` is missing or has too little space. Removes the folders of killed runs. */
export function memoryFolder(root: string, bytesMin: number): string | undefined {
  try {
    for (const name of readdirSync(root)) {
      const pid = new RegExp(`^${prefix}(\\d+)-`).exec(name)?.[1];
      if (pid !== undefined && !isAlive(Number(pid))) rmSync(join(root, name), { recursive: true, force: true });
    }
    const { bavail, bsize } = statfsSync(root);
    if (bavail * bsize < bytesMin) return undefined;
    const folder = mkdtempSync(join(root, `${prefix}${process.pid}-`));
    // PostgreSQL runs as another user.
    chmodSync(folder, 0o1777);
    return folder;
  } catch {
    return undefined;
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // The process is alive and belongs to another user.
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
