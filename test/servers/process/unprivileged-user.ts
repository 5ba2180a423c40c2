import { chown, cp } from "node:fs/promises";
import { join, relative } from "node:path";
import type { Found } from "../provider.js";
import { runCommand, START_BOUND_MS } from "./command.js";

/** The user to run as; empty for the user of this process. */
export type RunAs = { readonly uid: number; readonly gid: number } | Record<string, never>;

/** PostgreSQL refuses to run as root, so root gives the folder to a user without rights and starts the programs as that user. */
export async function handToUnprivilegedUser(folder: string): Promise<RunAs> {
  if (process.getuid?.() !== 0) return {};
  const user = (await idsOf("postgres")) ?? (await idsOf("nobody"));
  if (user === undefined) throw new Error("PostgreSQL does not run as root, and there is neither a user postgres nor nobody");
  await chown(folder, user.uid, user.gid);
  return user;
}

/** The folder of binaries that this user can execute: the found one, or a copy if the user may not enter the found one. */
export async function reachableBinaries(found: Found, user: RunAs, folder: string): Promise<string> {
  try {
    await runCommand(join(found.path, "initdb"), ["--version"], { ...user, boundMs: START_BOUND_MS });
    return found.path;
  } catch (error) {
    if (found.movable === undefined || !("uid" in user)) throw error;
    const copy = join(folder, "programs");
    await cp(found.movable, copy, { recursive: true, verbatimSymlinks: true });
    await runCommand("chown", ["-R", `${user.uid}:${user.gid}`, copy], { boundMs: START_BOUND_MS });
    return join(copy, relative(found.movable, found.path));
  }
}

async function idsOf(name: string): Promise<{ uid: number; gid: number } | undefined> {
  const id = async (flag: string) => Number(await runCommand("id", [flag, name], { boundMs: START_BOUND_MS }));
  return Promise.all([id("-u"), id("-g")]).then(
    ([uid, gid]) => ({ uid, gid }),
    () => undefined,
  );
}
