import { writeFileSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import { runCommand, START_BOUND_MS } from "../process/command.js";
import { startProgram } from "../process/program-server.js";
import type { Found, Provider, Runtime, Server } from "../provider.js";
import { installDebianPackage } from "../sources/debian.js";
import { programOnPath } from "../sources/on-path.js";

/** The PgBouncer program. Each test starts it with its own target and mode (`startPgBouncer`). */
export const pgbouncer: Provider<Runtime> = {
  title: "PgBouncer",
  env: { given: "ONCEFLOW_TEST_PGBOUNCER", from: "ONCEFLOW_TEST_PGBOUNCER_FROM" },
  unsupported: () => (process.platform === "linux" ? undefined : "the tests look for its program in the folders of Debian"),
  given: (path) => start({ from: "ONCEFLOW_TEST_PGBOUNCER", path }),
  sources: [
    { name: "machine", seek: onThisMachine },
    { name: "debian", seek: fromDebian },
  ],
  start,
};

async function onThisMachine(): Promise<Found> {
  return { from: "this machine", path: programOnPath("pgbouncer") };
}

async function fromDebian(): Promise<Found> {
  await installDebianPackage("pgbouncer");
  return { ...(await onThisMachine()), from: "the Debian package pgbouncer" };
}

async function start({ from, path }: Found): Promise<Runtime> {
  const [version] = (await runCommand(path, ["--version"], { boundMs: START_BOUND_MS })).split("\n");
  return { from: `${from}, ${version}`, path, stop: async () => {} };
}

export interface PoolerSettings {
  /** The URL of the server behind the pooler. */
  readonly target: string;
  readonly pool_mode: "transaction" | "session" | "statement";
  readonly default_pool_size?: number;
  readonly ignore_startup_parameters?: string;
}

/** Starts a pooler for one test. Its URL leads to the database of `target`. */
export async function startPgBouncer({ from, path }: Runtime, { target, ...settings }: PoolerSettings): Promise<Server> {
  const server = new URL(target);
  return await startProgram({
    title: "PgBouncer",
    from,
    command: path,
    unprivileged: true,
    args({ port, folder }) {
      const file = join(folder, "pgbouncer.ini");
      const all = {
        listen_addr: "127.0.0.1",
        listen_port: port,
        unix_socket_dir: "",
        auth_type: "any",
        max_client_conn: 2000,
        // Consecutive transactions use different server sessions, if there are several.
        server_round_robin: 1,
        ...settings,
      };
      const lines = Object.entries(all).map(([name, value]) => `${name} = ${value}`);
      const database = `* = host=${server.hostname} port=${server.port} user=${server.username}`;
      writeFileSync(file, ["[databases]", database, "[pgbouncer]", ...lines, ""].join("\n"));
      return [file];
    },
    url(port) {
      const url = new URL(target);
      url.port = String(port);
      return url.href;
    },
    answers,
  });
}

async function answers(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 1000 });
  client.on("error", () => {});
  try {
    await client.connect();
    await client.query("SELECT 1");
    return true;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => undefined);
  }
}
