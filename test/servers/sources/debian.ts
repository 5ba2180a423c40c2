import { existsSync } from "node:fs";
import { INSTALL_BOUND_MS, runCommand } from "../process/command.js";

let last: Promise<void> = Promise.resolve();

/** Installs a package with apt-get, or throws the reason why that is not possible. Calls wait for each other, because apt has one lock. */
export function installDebianPackage(name: string): Promise<void> {
  const turn = last.then(() => install(name));
  last = turn.catch(() => {});
  return turn;
}

async function install(name: string): Promise<void> {
  if (process.getuid?.() !== 0) throw new Error("only root can install a package");
  if (!existsSync("/usr/bin/apt-get")) throw new Error("no apt-get here");
  process.stderr.write(`installing the Debian package ${name}\n`);
  // In runlevel 1 a package does not start its server.
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive", RUNLEVEL: "1" };
  await runCommand("apt-get", ["update"], { boundMs: INSTALL_BOUND_MS, env });
  // If another process is installing a package, apt waits for it instead of failing.
  const args = ["-o", "DPkg::Lock::Timeout=300", "install", "-y", "--no-install-recommends", name];
  await runCommand("apt-get", args, { boundMs: INSTALL_BOUND_MS, env });
}
