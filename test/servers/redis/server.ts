import type { ChildProcess } from "node:child_process";
import { mkdir, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient } from "redis";
import { poll } from "../../kit/poll.js";
import { excerpt, START_BOUND_MS } from "../process/command.js";
import { freePort } from "../process/free-port.js";
import { type Guard, startGuard } from "../process/guard.js";
import { hasEnded, launchServer } from "../process/launch.js";
import { signal } from "../process/processes.js";
import type { Found, Server } from "../provider.js";

/** What one process is made of. It stays the same when the process is killed and started again. */
interface Place {
  readonly program: string;
  readonly guard: Guard;
  readonly port: number;
  /** Its data and its log. */
  readonly folder: string;
  readonly settings: RedisSettings;
}

type RedisSettings = Readonly<Record<string, string>>;

export interface RedisProcess {
  readonly port: number;
  readonly pid: number | undefined;
  kill(): Promise<void>;
  restart(): Promise<void>;
  end(): Promise<void>;
}

/** A private server, as durable as Redis can be: it answers when the disk has it, and evicts nothing. */
export async function startRedis(found: Found): Promise<Server> {
  const guard = await startGuard(join(tmpdir(), "onceflow-redis-"), "SIGKILL");
  try {
    const server = await startRedisProcess(found, guard, { appendonly: "yes", appendfsync: "always" });
    return {
      from: found.from,
      url: `redis://127.0.0.1:${server.port}`,
      folder: guard.folder,
      get pid() {
        return server.pid;
      },
      kill: server.kill,
      restart: server.restart,
      stop: async () => {
        await server.end();
        await guard.release();
      },
    };
  } catch (error) {
    await guard.release();
    throw error;
  }
}

/** One process in a folder of its own under the guard's: a server, a member of a cluster, or a sentinel. */
export async function startRedisProcess(found: Found, guard: Guard, settings: RedisSettings): Promise<RedisProcess> {
  return await poll(
    START_BOUND_MS,
    async () => {
      // Somebody may take the port before the server does: then it is another one's turn.
      const port = await freePort();
      const place = { program: found.path, guard, port, folder: join(guard.folder, String(port)), settings };
      await mkdir(place.folder, { recursive: true });
      const server = await tryToStart(place);
      return server && runningAt(place, server);
    },
    () => `Redis found no free port within ${START_BOUND_MS} ms`,
  );
}

function runningAt(place: Place, first: ChildProcess): RedisProcess {
  let server = first;
  const kill = async () => {
    if (server.pid !== undefined && !hasEnded(server)) signal(server.pid, "SIGKILL");
    await poll(
      START_BOUND_MS,
      () => hasEnded(server) || undefined,
      () => `Redis (process ${server.pid}) outlived SIGKILL`,
    );
  };
  return {
    port: place.port,
    get pid() {
      return hasEnded(server) ? undefined : server.pid;
    },
    kill,
    // Everything is thrown away with its folder: there is nothing to shut down gently.
    end: kill,
    restart: async () => {
      if (!hasEnded(server)) return;
      const late = () => `Redis could not be started again on port ${place.port} within ${START_BOUND_MS} ms`;
      server = await poll(START_BOUND_MS, () => tryToStart(place), late);
    },
  };
}

/** The server, once it answers; undefined when something else still holds its port. */
async function tryToStart(place: Place): Promise<ChildProcess | undefined> {
  const log = join(place.folder, "server.log");
  const server = launch(place, log);
  const url = `redis://127.0.0.1:${place.port}`;
  const up = await poll(
    START_BOUND_MS,
    async () => {
      if (hasEnded(server)) return false;
      // While it loads its data it answers with an error, and is not up yet.
      return await ask(url, "PING").then(
        () => true,
        () => undefined,
      );
    },
    () => `Redis did not answer within ${START_BOUND_MS} ms`,
  );
  if (up) return server;
  const said = await readFile(log, "utf8");
  if (/in use/.test(said)) return undefined;
  throw new Error(`Redis ended as soon as it was started: ${excerpt(said)}`);
}

function launch({ program, guard, port, folder, settings }: Place, log: string): ChildProcess {
  const all = { bind: "127.0.0.1", port: String(port), dir: folder, save: "", daemonize: "no", ...settings };
  const { sentinel, ...rest } = all as Record<string, string>;
  const args = Object.entries(rest).flatMap(([name, value]) => [`--${name}`, ...(value === "" ? [""] : value.split(" "))]);
  const asked = sentinel === undefined ? args : [sentinel, "--sentinel", "--port", String(port), "--dir", folder];
  return launchServer({ command: program, args: asked, cwd: folder, log, guard });
}

/** One command on a connection of its own. */
export async function ask(url: string, ...command: string[]): Promise<unknown> {
  const client = createClient({ url, socket: { connectTimeout: 1000, reconnectStrategy: false } });
  // A connection that breaks is an answer here, which the promises below already give.
  client.on("error", () => {});
  try {
    await client.connect();
    return await client.sendCommand(command);
  } finally {
    client.destroy();
  }
}
