import { execFile } from "node:child_process";

export const START_BOUND_MS = 30_000;
export const INSTALL_BOUND_MS = 600_000;

interface CommandOptions {
  readonly boundMs: number;
  readonly uid?: number;
  readonly gid?: number;
  readonly env?: NodeJS.ProcessEnv;
  readonly cwd?: string;
  /** Kills the command if this process dies before it ends. */
  readonly guard?: { watch(pid: number): void; forget(pid: number): void };
}

/** Runs a command and returns its output. Throws an error with an excerpt of the output if it fails or takes too long. */
export async function runCommand(command: string, args: readonly string[], options: CommandOptions): Promise<string> {
  const { boundMs, guard, ...rest } = options;
  return new Promise((resolve, reject) => {
    const child = execFile(
      command,
      args,
      {
        ...rest,
        timeout: boundMs,
        killSignal: "SIGKILL",
        maxBuffer: 64 * 1024 * 1024,
        // On Windows npm is a script, which only a shell can start.
        shell: process.platform === "win32" && command === "npm",
      },
      (error, stdout, stderr) => {
        if (child.pid !== undefined) guard?.forget(child.pid);
        if (!error) return resolve(stdout);
        const why = error.killed ? `took longer than ${boundMs} ms` : `failed (${error.code ?? error.signal})`;
        reject(new Error(`${command} ${args[0] ?? ""} ${why}: ${excerpt(stderr || stdout) || error.message}`));
      },
    );
    if (child.pid !== undefined) guard?.watch(child.pid);
  });
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** A text as one line of limited length. Some programs print the reason first and some last, so both ends are kept. */
export function excerpt(text: string): string {
  const lines = text.trim().split("\n");
  return (lines.length > 8 ? [...lines.slice(0, 4), "…", ...lines.slice(-4)] : lines).join(" | ");
}
