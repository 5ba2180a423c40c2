import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";

/**
 * The IPC channel is the lifeline between main and its processes: the system closes it however main ends, SIGKILL
 * included, and a process that sees it closed ends too. So nothing is ever left behind.
 */
const living = new Set<ChildProcess>();

/** Starts a program of this folder as a process of its own, which is killed when `signal` aborts. */
export function startProcess(program: "payment-provider" | "shop-worker", args: readonly string[], signal: AbortSignal): ChildProcess {
  const path = fileURLToPath(new URL(`./${program}.js`, import.meta.url));
  // A debugger that main was started with is not for its children: they would fight for one port.
  const child = fork(path, args, { stdio: ["ignore", "ignore", "inherit", "ipc"], execArgv: [], signal, killSignal: "SIGKILL" });
  living.add(child);
  child.on("exit", () => living.delete(child));
  child.on("error", (error) => {
    // A process that never started has no exit either.
    if (child.pid === undefined) living.delete(child);
    if (!signal.aborted) process.stderr.write(`${program}: ${error.message}\n`);
  });
  return child;
}

/** Resolves when the last process is gone. Whoever calls it has aborted their signals before. */
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
  // A message that cannot be delivered means that main is gone, and with it the need for an answer.
  process.send?.(message, undefined, undefined, () => {});
}
