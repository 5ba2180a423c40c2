import { readdirSync, readFileSync } from "node:fs";
import { runCommand } from "./command.js";

/** Whether a process still runs. A zombie, which has ended but was not waited for, does not. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
  if (process.platform !== "linux") return true;
  const state = linuxStat(pid)?.state;
  return state !== undefined && state !== "Z" && state !== "X";
}

/** The direct children of a process. Linux is read from /proc, because small images do not have `ps`. */
export async function childrenOf(pid: number): Promise<number[]> {
  if (process.platform === "linux") {
    const all = readdirSync("/proc").filter((entry) => /^\d+$/.test(entry));
    return all.map(Number).filter((candidate) => linuxStat(candidate)?.parent === pid);
  }
  const table = await runCommand("ps", ["-A", "-o", "pid=,ppid="], { boundMs: 5_000 });
  const rows = table.split("\n").map((line) => line.trim().split(/\s+/).map(Number));
  return rows.flatMap(([child, parent]) => (parent === pid && child !== undefined ? [child] : []));
}

/** Sends a signal to a process that may have ended already. */
export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

function linuxStat(pid: number): { state: string | undefined; parent: number } | undefined {
  try {
    // The name, in parentheses, may itself contain blanks and parentheses: the fields begin after the last one.
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    const [state, parent] = text.slice(text.lastIndexOf(")") + 2).split(" ");
    return { state, parent: Number(parent) };
  } catch {
    return undefined;
  }
}
