import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import type { Guard } from "./guard.js";

interface Launch {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string;
  /** The file that all its output goes to. */
  readonly log: string;
  readonly guard: Pick<Guard, "watch" | "forget">;
  /** Who it runs as, where that is not us. */
  readonly user?: { readonly uid?: number; readonly gid?: number };
  /** Its environment, where that is not ours. */
  readonly env?: NodeJS.ProcessEnv;
}

/** Starts a server's process, and has it ended should we die first. */
export function launchServer({ command, args, cwd, log, guard, user = {}, env = process.env }: Launch): ChildProcess {
  const output = openSync(log, "w");
  try {
    // In a session of its own, so that Ctrl-C in the terminal leaves the server's end to us.
    const server = spawn(command, args, { ...user, cwd, env, stdio: ["ignore", output, output], detached: true });
    server.unref();
    const { pid } = server;
    if (pid !== undefined) {
      guard.watch(pid);
      server.once("exit", () => guard.forget(pid));
    }
    // Without a process there is an error instead of an exit; the wait for an answer sees that there is no process.
    server.on("error", () => {});
    return server;
  } finally {
    closeSync(output);
  }
}

export function hasEnded(server: ChildProcess): boolean {
  return server.pid === undefined || server.exitCode !== null || server.signalCode !== null;
}
