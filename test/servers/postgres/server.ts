import type { ChildProcess } from "node:child_process";
import { readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { poll } from "../../kit/poll.js";
import { excerpt, runCommand, START_BOUND_MS } from "../process/command.js";
import { freePort } from "../process/free-port.js";
import { type Guard, startGuard } from "../process/guard.js";
import { hasEnded, launchServer } from "../process/launch.js";
import { childrenOf, isRunning, signal } from "../process/processes.js";
import { handToUnprivilegedUser, type RunAs, reachableBinaries } from "../process/unprivileged-user.js";
import type { Found, Server } from "../provider.js";

/** What one private server is made of. It stays the same when the server is killed and started again. */
interface Place {
  readonly binaries: string;
  readonly guard: Guard;
  readonly user: RunAs;
  readonly port: number;
}

/** A private server: a folder, a port and processes of its own, all of which `stop` or the death of this process removes. */
export async function startPostgres(found: Found): Promise<Server> {
  // SIGQUIT is PostgreSQL's immediate shutdown: unlike SIGKILL it gives its shared memory back to the system.
  const guard = await startGuard(join(tmpdir(), "onceflow-postgres-"), "SIGQUIT");
  try {
    const user = await handToUnprivilegedUser(guard.folder);
    const binaries = await reachableBinaries(found, user, guard.folder);
    await initialise(binaries, guard, user);
    return await poll(
      START_BOUND_MS,
      async () => {
        // Somebody may take the port before the server does: then it is another one's turn.
        const place = { binaries, guard, user, port: await freePort() };
        const server = await tryToStart(place);
        return server && runningAt(place, server, found.from);
      },
      () => `PostgreSQL found no free port within ${START_BOUND_MS} ms`,
    );
  } catch (error) {
    await guard.release();
    throw error;
  }
}

function runningAt(place: Place, first: ChildProcess, from: string): Server {
  let server = first;
  let stopped = false;
  const restart = async () => {
    if (!hasEnded(server)) return;
    // What the killed server held (its port, its shared memory) can be taken for a moment longer, so it is tried until it is not.
    const late = () => `PostgreSQL could not be started again on port ${place.port} within ${START_BOUND_MS} ms`;
    server = await poll(START_BOUND_MS, () => tryToStart(place), late);
  };
  return {
    from,
    url: urlOf(place),
    folder: place.guard.folder,
    get pid() {
      return hasEnded(server) ? undefined : server.pid;
    },
    kill: () => killAll(server),
    restart,
    stop: async () => {
      if (stopped) return;
      stopped = true;
      // A killed server has left shared memory behind, of which some systems have little. It takes that back when it starts.
      await restart().catch(() => undefined);
      await shutDown(server);
      await place.guard.release();
    },
  };
}

async function initialise(binaries: string, guard: Guard, user: RunAs): Promise<void> {
  const args = ["-D", join(guard.folder, "data"), "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"];
  await runCommand(join(binaries, "initdb"), args, { ...user, boundMs: START_BOUND_MS, guard });
}

/** The server, once it answers; undefined when something else still holds what it needs. */
async function tryToStart(place: Place): Promise<ChildProcess | undefined> {
  const log = join(place.guard.folder, "server.log");
  const server = launch(place, log);
  if (await answers(server, place, log)) return server;
  const said = await readFile(log, "utf8");
  if (/already in use|still in use/.test(said)) return undefined;
  throw new Error(`PostgreSQL ended as soon as it was started: ${excerpt(said)}`);
}

function launch({ binaries, guard, user, port }: Place, log: string): ChildProcess {
  const settings = {
    listen_addresses: "127.0.0.1",
    port,
    // A socket's path may not be long, and a temporary folder's sometimes is.
    unix_socket_directories: "",
    // Durability is what is tested here, so nothing is traded for speed, whatever the packager's defaults are.
    fsync: "on",
    synchronous_commit: "on",
    full_page_writes: "on",
    max_connections: 200,
    shared_buffers: "64MB",
    // In the data folder instead of the system's shared memory, so that removing the folder removes it.
    dynamic_shared_memory_type: "mmap",
  };
  const args = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const data = join(guard.folder, "data");
  return launchServer({ command: join(binaries, "postgres"), args: ["-D", data, ...args], cwd: guard.folder, log, guard, user });
}

/** Whether the server came up: true when it answers a query, false when it ended instead. */
async function answers(server: ChildProcess, place: Place, log: string): Promise<boolean> {
  const ask = async () => {
    if (hasEnded(server)) return false;
    const client = new pg.Client({ connectionString: urlOf(place), connectionTimeoutMillis: 1_000 });
    // A connection that breaks is an answer here ("not yet"), which the promises below already give.
    client.on("error", () => {});
    try {
      await client.connect();
      await client.query("select 1");
      return true;
    } catch {
      return undefined;
    } finally {
      await client.end().catch(() => undefined);
    }
  };
  try {
    return await poll(START_BOUND_MS, ask, () => `PostgreSQL did not answer within ${START_BOUND_MS} ms`);
  } catch (error) {
    await killAll(server);
    throw new Error(`${(error as Error).message}: ${excerpt(await readFile(log, "utf8"))}`);
  }
}

/** The fast shutdown, which ends open connections; by force when even that takes too long. */
async function shutDown(server: ChildProcess): Promise<void> {
  if (server.pid !== undefined && !hasEnded(server)) signal(server.pid, "SIGINT");
  await poll(
    START_BOUND_MS,
    () => hasEnded(server) || undefined,
    () => "still running",
  ).catch(() => killAll(server));
}

/** The processes that serve connections outlive the first one for a moment: a crash is over when they are gone, too. */
async function killAll(server: ChildProcess): Promise<void> {
  if (server.pid === undefined || hasEnded(server)) return;
  const children = await childrenOf(server.pid);
  for (const pid of [server.pid, ...children]) signal(pid, "SIGKILL");
  await poll(
    START_BOUND_MS,
    () => (hasEnded(server) && !children.some(isRunning)) || undefined,
    () => `PostgreSQL (process ${server.pid}) outlived SIGKILL`,
  );
}

function urlOf({ port }: Place): string {
  return `postgres://postgres@127.0.0.1:${port}/postgres`;
}
