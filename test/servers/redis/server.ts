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

/** The parts of a Redis process that stay the same when it is killed and restarted. */
interface Place {
  readonly program: string;
  readonly guard: Guard;
  readonly port: number;
  /** The folder of its data and its log. */
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

/** A private server with the most durable settings: it acknowledges a write when it is on disk, and evicts nothing. */
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

/** One process in its own folder inside the guard's folder: a server, a member of a cluster, or a sentinel. */
export async function startRedisProcess(found: Found, guard: Guard, settings: RedisSettings): Promise<RedisProcess> {
  return await poll(
    START_BOUND_MS,
    async () => {
      // Another process may take the port before the server does: then another port is tried.
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
    // The folder is removed with all data: no gentle shutdown is needed.
    end: kill,
    restart: async () => {
      if (!hasEnded(server)) return;
      const late = () => `Redis could not be started again on port ${place.port} within ${START_BOUND_MS} ms`;
      server = await poll(START_BOUND_MS, () => tryToStart(place), late);
    },
  };
}

/** Returns the server when it answers, or undefined if its port is still in use. */
async function tryToStart(place: Place): Promise<ChildProcess | undefined> {
  const log = join(place.folder, "server.log");
  const server = launch(place, log);
  const url = `redis://127.0.0.1:${place.port}`;
  const up = await poll(
    START_BOUND_MS,
    async () => {
      if (hasEnded(server)) return false;
      // While it loads its data, it answers with an error and is not up yet.
      return await ask(url, "PING").then(
        () => true,
        () => undefined,
      );
    },
    () => `Redis did not answer within ${START_BOUND_MS} ms`,
  );
  if (up) return server;
  const output = await readFile(log, "utf8");
  if (/in use/.test(output)) return undefined;
  throw new Error(`Redis ended as soon as it was started: ${excerpt(output)}`);
}

function launch({ program, guard, port, folder, settings }: Place, log: string): ChildProcess {
  const all = { bind: "127.0.0.1", port: String(port), dir: folder, save: "", daemonize: "no", ...settings };
  const { sentinel, ...rest } = all as Record<string, string>;
  const args = Object.entries(rest).flatMap(([name, value]) => [`--${name}`, ...(value === "" ? [""] : value.split(" "))]);
  const asked = sentinel === undefined ? args : [sentinel, "--sentinel", "--port", String(port), "--dir", folder];
  return launchServer({ command: program, args: asked, cwd: folder, log, guard });
}

/** Sends one command on a new connection. */
export async function ask(url: string, ...command: string[]): Promise<unknown> {
  const client = createClient({ url, socket: { connectTimeout: 1000, reconnectStrategy: false } });
  // A broken connection is reported by the promises below.
  client.on("error", () => {});
  try {
    await client.connect();
    return await client.sendCommand(command);
  } finally {
    client.destroy();
  }
}
