import { mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { runCommand } from "../servers/process/command.js";

/** The last commit of version 0.1.0. */
const commit = "c927383";
const root = resolve(import.meta.dirname, "../..");
const boundMs = 240_000;

export type Version = typeof import("onceflow") & typeof import("onceflow/workflow") & typeof import("onceflow/workflow/api");
export interface Built {
  readonly version: Version;
  remove(): Promise<void>;
}

/** Builds version 0.1.0 from its commit in a temporary folder. Returns the reason if that is not possible here. */
export async function version010(): Promise<Built | string> {
  const folder = await mkdtemp(join(tmpdir(), "onceflow-0.1.0-"));
  const remove = () => rm(folder, { recursive: true, force: true });
  try {
    const archive = join(folder, "source.tar");
    const parts = ["package.json", "src", "tsconfig.base.json", "tsconfig.build.json"];
    await runCommand("git", ["archive", "-o", archive, commit, ...parts], { boundMs, cwd: root });
    await runCommand("tar", ["-xf", archive, "-C", folder], { boundMs });
  } catch (error) {
    await remove();
    return `commit ${commit} of version 0.1.0 cannot be unpacked: ${(error as Error).message}`;
  }
  await symlink(join(root, "node_modules"), join(folder, "node_modules"));
  // Its types were checked when it was released, beside dependencies that this version no longer has.
  await runCommand(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), "-p", "tsconfig.build.json", "--noCheck"], {
    boundMs,
    cwd: folder,
  });
  const modules = await Promise.all(
    ["index", "workflow", "workflow-api"].map((name) => import(pathToFileURL(join(folder, "dist", `${name}.js`)).href)),
  );
  return { version: Object.assign({}, ...modules) as Version, remove };
}
