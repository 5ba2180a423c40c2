import { execFile } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { onTestFinished } from "vitest";
import { temporaryFolder } from "./temporary-folder.js";

const repository = resolve(import.meta.dirname, "../..");

/** A separate app: a folder with these files, in which onceflow and the other named packages are installed. */
export function appFolder(files: Readonly<Record<string, string>>, packages: readonly string[] = []): string {
  const folder = temporaryFolder(onTestFinished);
  for (const [name, text] of Object.entries({ "package.json": '{ "name": "app", "type": "module" }', ...files })) {
    const file = join(folder, name);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  }
  mkdirSync(join(folder, "node_modules"), { recursive: true });
  symlinkSync(repository, join(folder, "node_modules/onceflow"));
  for (const name of packages) symlinkSync(join(repository, "node_modules", name), join(folder, "node_modules", name));
  return folder;
}

export interface Ran {
  readonly code: number | string | null | undefined;
  readonly stdout: string;
  readonly stderr: string;
}

const runMsMax = 50_000;

/** Runs Node in a folder until it ends. */
export function runNode(args: readonly string[], { cwd, node = process.execPath, env = {} }: RunOptions): Promise<Ran> {
  // Variables of the test runner are not for other programs.
  const { NODE_OPTIONS: _, VITEST: __, ...inherited } = process.env;
  return new Promise((ended) => {
    execFile(node, args, { cwd, env: { ...inherited, ...env }, timeout: runMsMax }, (error, stdout, stderr) =>
      ended({ code: error ? (error.code ?? error.signal) : 0, stdout, stderr }),
    );
  });
}

interface RunOptions {
  readonly cwd: string;
  readonly node?: string;
  readonly env?: NodeJS.ProcessEnv;
}

/** The number of the first line, from 1, that contains this text. */
export function lineOf(text: string, part: string): number {
  return text.slice(0, text.indexOf(part)).split("\n").length;
}
