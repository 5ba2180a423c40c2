import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import type { Guard } from "./guard.js";

interface Launch {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string;
  /** The file for all output of the server. */
  readonly log: string;
  readonly guard: Pick<Guard, "watch" | "forget">;
  /** The user that the server runs as. Default: the user of this process. */
  readonly user?: { readonly uid?: number; readonly gid?: number };
  /** The environment of the server. Default: the environment of this process. */
  readonly env?: NodeJS.ProcessEnv;
}

/** Starts the process of a server. The guard ends it if this process dies first. */
export function launchServer({ command, args, cwd, log, guard, user = {}, env = process.env }: Launch): ChildProcess {
  const output = openSync(log, "w");
  try {
    // In its own session, so that Ctrl-C in the terminal does not end the server before the tests do.
    const server = spawn(command, args, { ...user, cwd, env, stdio: ["ignore", output, output], detached: true });
    server.unref();
    const { pid } = server;
    if (pid !== undefined) {
      guard.watch(pid);
      server.once("exit", () => guard.forget(pid));
    }
    // If the process cannot be started, there is an error event instead of an exit; `hasEnded` then returns true.
    server.on("error", () => {});
    return server;
  } finally {
    closeSync(output);
  }
}

export function hasEnded(server: ChildProcess): boolean {
  return server.pid === undefined || server.exitCode !== null || server.signalCode !== null;
}
