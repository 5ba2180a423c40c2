import { copyFileSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { sha256 } from "../../src/core/values/canonical.js";
import { runGo } from "../nodes/go.js";
import { findPython } from "../servers/sources/python.js";

const root = resolve(import.meta.dirname, "../..");
const clientsFolder: string = join(root, "clients");

/** The client program of a language: how it is started, or the reason why it cannot run here. */
export type ClientProgram =
  | { readonly ok: true; readonly file: string; readonly args: readonly string[]; readonly env: NodeJS.ProcessEnv }
  | { readonly ok: false; readonly reason: string };

/** Where Python finds clients/onceflow.py, and leaves no files beside it. */
export const pythonEnv: NodeJS.ProcessEnv = { PYTHONPATH: clientsFolder, PYTHONDONTWRITEBYTECODE: "1" };

async function pythonProgram(): Promise<ClientProgram> {
  const python = await findPython();
  if (!python.ok) return python;
  return { ok: true, file: python.path, args: [join(import.meta.dirname, "python/client.py")], env: pythonEnv };
}

/** A Go module with clients/onceflow.go as its package onceflow, and these files. */
export function goModule(folder: string, files: Readonly<Record<string, string>>): void {
  mkdirSync(join(folder, "onceflow"), { recursive: true });
  copyFileSync(join(clientsFolder, "onceflow.go"), join(folder, "onceflow/onceflow.go"));
  writeFileSync(join(folder, "go.mod"), "module example.com/client\n\ngo 1.21\n");
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
}

/** How long a worker waits for another one of this run, or of an earlier one that was killed, to build the program. */
const buildMsMax = 120_000;

/** Builds the Go program once: the files of this suite run in several workers. Throws if it does not compile. */
async function goProgram(): Promise<ClientProgram> {
  const main = readFileSync(join(import.meta.dirname, "go/main.go"), "utf8");
  const version = sha256(main + readFileSync(join(clientsFolder, "onceflow.go"), "utf8")).slice(0, 16);
  const file = join(root, `.build/go/clients/${version}`);
  const lock = `${file}.lock`;
  const folder = `${file}.module`;
  mkdirSync(join(file, ".."), { recursive: true });
  for (const until = Date.now() + buildMsMax; !existsSync(file); await delay(50)) {
    if (Date.now() > until) rmSync(lock, { recursive: true, force: true });
    if (!takeLock(lock)) continue;
    try {
      goModule(folder, { "main.go": main });
      const built = await runGo(folder, ["build", "-o", `${file}.new`, "."]);
      if (!built.ok) return built;
      renameSync(`${file}.new`, file);
    } finally {
      rmSync(folder, { recursive: true, force: true });
      rmSync(lock, { recursive: true, force: true });
    }
  }
  return { ok: true, file, args: [], env: {} };
}

function takeLock(lock: string): boolean {
  try {
    mkdirSync(lock);
    return true;
  } catch {
    return false;
  }
}

export interface Language {
  readonly name: "Python" | "Go";
  readonly program: ClientProgram;
}

/** Both languages. A suite skips the tests of one whose program cannot run here, with the reason in its title. */
export const languages: readonly Language[] = [
  { name: "Python", program: await pythonProgram() },
  { name: "Go", program: await goProgram() },
];

export function titleOf({ name, program }: Language): string {
  return program.ok ? name : `${name} (skipped: ${program.reason})`;
}
