import { execFile } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { onTestFinished } from "vitest";
import { temporaryFolder } from "../kit/temporary-folder.js";

const root = resolve(import.meta.dirname, "../..");
const { bin } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { bin: { onceflow: string } };
export const program = join(root, bin.onceflow);

export interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Runs the installed command in a separate process. */
export function onceflow(args: readonly string[], cwd = root): Promise<Ran> {
  return new Promise((ended) => {
    execFile(process.execPath, [program, ...args], { cwd, timeout: 50_000 }, (error, out, err) =>
      ended({ code: error === null ? 0 : typeof error.code === "number" ? error.code : -1, out, err }),
    );
  });
}

export function folderWith(files: Readonly<Record<string, string>>): string {
  const folder = temporaryFolder(onTestFinished);
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(join(folder, name, ".."), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  return folder;
}
