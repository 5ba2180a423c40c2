import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { cp, mkdir, readdir, readFile, rename } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { INSTALL_BOUND_MS, runCommand } from "../../test/servers/process/command.js";
import { startGuard } from "../../test/servers/process/guard.js";

export interface Peer {
  /** The URL of the contender's module. */
  readonly module: string;
  /** The measured packages with their versions, from package.json. */
  readonly versions: Readonly<Record<string, string>>;
}

const sources = fileURLToPath(new URL("../../../bench/peers/", import.meta.url));

/**
 * Peers are not dependencies of this package: each has its own package.json with exact versions, and is installed into a
 * temporary folder, which later runs use again while its files are unchanged.
 */
export async function installPeer(name: string): Promise<Peer> {
  const source = join(sources, name);
  const files = (await readdir(source)).filter((file) => file === "package.json" || file.endsWith(".mjs")).sort();
  const hash = createHash("sha256");
  for (const file of files) hash.update(file).update(await readFile(join(source, file)));
  const home = join(tmpdir(), "onceflow-bench-peers");
  const folder = join(home, `${name}-${process.version}-${hash.digest("hex").slice(0, 16)}`);
  if (!existsSync(folder)) await install({ name, source, files, home, folder });
  const { dependencies } = JSON.parse(await readFile(join(folder, "package.json"), "utf8")) as { dependencies: Record<string, string> };
  return { module: pathToFileURL(join(folder, "contender.mjs")).href, versions: dependencies };
}

interface Install {
  readonly name: string;
  readonly source: string;
  readonly files: readonly string[];
  readonly home: string;
  readonly folder: string;
}

/** Installs into a temporary folder, which is then renamed: a folder with the final name is complete. */
async function install({ name, source, files, home, folder }: Install): Promise<void> {
  await mkdir(home, { recursive: true });
  const guard = await startGuard(join(home, "installing-"), "SIGKILL");
  try {
    const made = join(guard.folder, name);
    await mkdir(made);
    for (const file of files) await cp(join(source, file), join(made, file));
    const flags = ["--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
    await runCommand("npm", ["install", "--prefix", made, ...flags], { boundMs: INSTALL_BOUND_MS, guard });
    await rename(made, folder).catch((error: unknown) => {
      if (!existsSync(folder)) throw error;
    });
  } finally {
    await guard.release();
  }
}
