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

/** The parts of a private server that stay the same when it is killed and restarted. */
interface Place {
  readonly binaries: string;
  readonly guard: Guard;
  readonly user: RunAs;
  readonly port: number;
}

/** A private server with its own folder, port and processes. `stop`, or the death of this process, removes all of them. */
export async function startPostgres(found: Found): Promise<Server> {
  // SIGQUIT is PostgreSQL's immediate shutdown: unlike SIGKILL it releases the shared memory.
  const guard = await startGuard(join(tmpdir(), "onceflow-postgres-"), "SIGQUIT");
  try {
    const user = await handToUnprivilegedUser(guard.folder);
    const binaries = await reachableBinaries(found, user, guard.folder);
    await initialise(binaries, guard, user);
    return await poll(
      START_BOUND_MS,
      async () => {
        // Another process may take the port before the server does: then another port is tried.
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
    // The port and the shared memory of the killed server may be in use for a moment longer, so the start is retried.
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
      // A killed server leaves shared memory behind, of which some systems have little. It is released when the server starts again.
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

/** Returns the server when it answers, or undefined if its port or its memory is still in use. */
async function tryToStart(place: Place): Promise<ChildProcess | undefined> {
  const log = join(place.guard.folder, "server.log");
  const server = launch(place, log);
  if (await answers(server, place, log)) return server;
  const output = await readFile(log, "utf8");
  if (/already in use|still in use/.test(output)) return undefined;
  throw new Error(`PostgreSQL ended as soon as it was started: ${excerpt(output)}`);
}

function launch({ binaries, guard, user, port }: Place, log: string): ChildProcess {
  const settings = {
    listen_addresses: "127.0.0.1",
    port,
    // A socket path has a length limit, which the path of a temporary folder may exceed.
    unix_socket_directories: "",
    // The tests are about durability, so no setting trades it for speed, whatever the defaults of the package are.
    fsync: "on",
    synchronous_commit: "on",
    full_page_writes: "on",
    max_connections: 200,
    shared_buffers: "64MB",
    // In the data folder instead of the system's shared memory, so that it is removed with the folder.
    dynamic_shared_memory_type: "mmap",
  };
  const args = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const data = join(guard.folder, "data");
  return launchServer({ command: join(binaries, "postgres"), args: ["-D", data, ...args], cwd: guard.folder, log, guard, user });
}

/** True when the server answers a query, false if its process has ended. */
async function answers(server: ChildProcess, place: Place, log: string): Promise<boolean> {
  const ask = async () => {
    if (hasEnded(server)) return false;
    const client = new pg.Client({ connectionString: urlOf(place), connectionTimeoutMillis: 1_000 });
    // A broken connection means "not yet", which the promises below already report.
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

/** A fast shutdown, which ends open connections. Kills the processes if that takes too long. */
async function shutDown(server: ChildProcess): Promise<void> {
  if (server.pid !== undefined && !hasEnded(server)) signal(server.pid, "SIGINT");
  await poll(
    START_BOUND_MS,
    () => hasEnded(server) || undefined,
    () => "still running",
  ).catch(() => killAll(server));
}

/** Kills the server and the processes that serve its connections, which would outlive it for a moment. */
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
