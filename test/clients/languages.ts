import { copyFileSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { sha256 } from "../../src/core/values/canonical.js";
import { runGo } from "../nodes/go.js";
import { findPython } from "../servers/sources/python.js";

const root = resolve(import.meta.dirname, "../..");
export const clientsFolder: string = join(root, "clients");

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

/** Builds the Go program, unless it has been built from the same files. Throws if it does not compile. */
async function goProgram(): Promise<ClientProgram> {
  const main = readFileSync(join(import.meta.dirname, "go/main.go"), "utf8");
  const version = sha256(main + readFileSync(join(clientsFolder, "onceflow.go"), "utf8")).slice(0, 16);
  const folder = join(root, ".build/go/clients");
  const file = join(folder, "client");
  const built: ClientProgram = { ok: true, file, args: [], env: {} };
  if (readIfThere(`${file}.version`) === version) return built;
  goModule(folder, { "main.go": main });
  // Another worker of this run may build it at the same time: each writes a file of its own.
  const own = `${file}.${process.pid}`;
  const ran = await runGo(folder, ["build", "-o", own, "."]);
  if (!ran.ok) return ran;
  renameSync(own, file);
  writeFileSync(`${file}.version`, version);
  return built;
}

function readIfThere(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return undefined;
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
