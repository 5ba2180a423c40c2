import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";

export interface Guard {
  /** The temporary folder that this guard removes. */
  readonly folder: string;
  /** From now on the guard kills this process when ours dies. */
  watch(pid: number): void;
  /** The process has ended: the system may give its id to another process soon. */
  forget(pid: number): void;
  /** Removes the folder and ends the guard. */
  release(): Promise<void>;
}

/**
 * The guard is a separate program that outlives this process: it reads process ids from a pipe that only this process holds, so
 * the pipe closes even if this process is killed by SIGKILL. It is text because it must run from the sources and from the build.
 */
const GUARD_PROGRAM = `
const { readFileSync, rmSync } = require("node:fs");
const [folder, gentle] = process.argv.slice(1);
const pids = new Set();
let rest = "";
for (const name of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(name, () => {});
process.stdin.on("error", () => {});
process.stdin.on("data", (chunk) => {
  const lines = (rest + chunk).split("\\n");
  rest = lines.pop();
  for (const line of lines) line[0] === "+" ? pids.add(Number(line.slice(1))) : pids.delete(Number(line.slice(1)));
});
process.stdin.on("close", async () => {
  send(gentle);
  await gone(3000);
  send("SIGKILL");
  await gone(2000);
  rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
  process.exit(0);
});
function send(name) {
  for (const pid of pids) try { process.kill(pid, name); } catch { pids.delete(pid); }
}
async function gone(boundMs) {
  for (const end = Date.now() + boundMs; Date.now() < end && [...pids].some(runs); ) await new Promise((r) => setTimeout(r, 25));
}
function runs(pid) {
  try { process.kill(pid, 0); } catch { return false; }
  try { return !/\\) [ZX] [^)]*$/.test(readFileSync("/proc/" + pid + "/stat", "utf8")); } catch { return process.platform !== "linux"; }
}
`;

/** Creates a temporary folder, and a process that removes it and kills the watched processes when this process has ended. */
export async function startGuard(folderPrefix: string, gentle: NodeJS.Signals = "SIGTERM"): Promise<Guard> {
  const folder = await mkdtemp(folderPrefix);
  const guard = spawn(process.execPath, ["-e", GUARD_PROGRAM, folder, gentle], {
    stdio: ["pipe", "ignore", "ignore"],
    // In its own session, so that Ctrl-C in the terminal reaches this process and not the guard.
    detached: true,
    // Without the environment of this process, which may name a loader or a debugger.
    env: {},
  });
  const ended = once(guard, "exit").catch(() => undefined);
  // If the guard was killed, the clean-up does not happen; that is no reason to fail.
  guard.stdin.on("error", () => {});
  // Neither the guard nor the pipe keeps a finished program alive.
  guard.unref();
  (guard.stdin as unknown as { unref(): void }).unref();

  return {
    folder,
    watch: (pid) => void guard.stdin.write(`+${pid}\n`),
    forget: (pid) => void guard.stdin.write(`-${pid}\n`),
    release: async () => {
      await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
      guard.ref();
      guard.stdin.end();
      await ended;
    },
  };
}
