import { vi } from "vitest";
import { runProgram } from "../../src/cli/program.js";

export interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Runs a command line in this process: much cheaper than a process of its own. Not two at the same time. */
export async function command(...args: readonly string[]): Promise<Ran> {
  let [out, err] = ["", ""];
  const stdout = vi.spyOn(process.stdout, "write").mockImplementation((text) => {
    out += String(text);
    return true;
  });
  const stderr = vi.spyOn(process.stderr, "write").mockImplementation((text) => {
    err += String(text);
    return true;
  });
  const before = process.exitCode;
  process.exitCode = undefined;
  try {
    await runProgram(args);
    return { code: Number(process.exitCode ?? 0), out, err };
  } finally {
    process.exitCode = before;
    stdout.mockRestore();
    stderr.mockRestore();
  }
}

/** The JSON that a command prints. */
export async function json<Body>(...args: readonly string[]): Promise<Body> {
  return JSON.parse((await command(...args, "--json")).out) as Body;
}
