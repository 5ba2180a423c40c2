import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";

export interface Guard {
  /** The temporary folder this guard removes. */
  readonly folder: string;
  /** From now on this process is killed when ours dies. */
  watch(pid: number): void;
  /** It has ended: its number may soon belong to somebody else. */
  forget(pid: number): void;
  /** Removes the folder and ends the guard. */
  release(): Promise<void>;
}

/**
 * The guard is a program of its own, which outlives us: it reads process ids from a pipe that only we hold, so the pipe closes
 * however we die, SIGKILL included. It is text because it has to run both from the sources and from the compiled files.
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

/** Makes a temporary folder and the process that removes it, and kills what is watched, when this process is gone. */
export async function startGuard(folderPrefix: string, gentle: NodeJS.Signals = "SIGTERM"): Promise<Guard> {
  const folder = await mkdtemp(folderPrefix);
  const guard = spawn(process.execPath, ["-e", GUARD_PROGRAM, folder, gentle], {
    stdio: ["pipe", "ignore", "ignore"],
    // In a session of its own, so that Ctrl-C in the terminal reaches us and not the guard.
    detached: true,
    // A loader or a debugger that our own process was started with is not for the guard.
    env: {},
  });
  const ended = once(guard, "exit").catch(() => undefined);
  // A guard that somebody killed is a clean-up that does not happen, not a reason to fail.
  guard.stdin.on("error", () => {});
  // Neither the guard nor the pipe to it keeps a program alive that is done.
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
