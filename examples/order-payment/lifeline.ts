import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";

/**
 * The IPC channel connects main and its processes: the system closes it however main ends, even by SIGKILL, and a process
 * exits when its channel closes. So no process is left behind.
 */
const living = new Set<ChildProcess>();

/** Starts a program of this folder as a child process, which is killed when `signal` aborts. */
export function startProcess(program: "payment-provider" | "shop-worker", args: readonly string[], signal: AbortSignal): ChildProcess {
  const path = fileURLToPath(new URL(`./${program}.js`, import.meta.url));
  // Children do not inherit the debugger options of main: they would compete for one port.
  const child = fork(path, args, { stdio: ["ignore", "ignore", "inherit", "ipc"], execArgv: [], signal, killSignal: "SIGKILL" });
  living.add(child);
  child.on("exit", () => living.delete(child));
  child.on("error", (error) => {
    // A process that failed to start emits no exit event.
    if (child.pid === undefined) living.delete(child);
    if (!signal.aborted) process.stderr.write(`${program}: ${error.message}\n`);
  });
  return child;
}

/** Resolves when the last process has exited. The caller must have aborted their signals. */
export async function allProcessesEnded(): Promise<void> {
  await Promise.all([...living].map((child) => new Promise((resolve) => child.once("exit", resolve))));
}

/** Called first in every child. */
export function endWithMain(): void {
  process.on("disconnect", () => process.exit());
  // Ctrl-C in a terminal reaches every process in it; main alone decides what happens then.
  process.on("SIGINT", () => {});
  // Main may have died while this program was still being loaded.
  if (!process.connected) process.exit();
}

export function tellMain(message: object): void {
  // If the message cannot be delivered, main has exited and needs no answer.
  process.send?.(message, undefined, undefined, () => {});
}
