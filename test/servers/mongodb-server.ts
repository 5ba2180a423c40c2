import type { ChildProcess } from "node:child_process";
import { readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { MongoClient } from "mongodb";
import { excerpt, poll, START_BOUND_MS } from "./bounded.js";
import { freePort } from "./free-port.js";
import { type Guard, startGuard } from "./guard.js";
import { hasEnded, launchServer } from "./launch.js";
import { signal } from "./processes.js";
import type { Server } from "./provider.js";

/** A program that speaks MongoDB's protocol on a port of loopback. */
export interface MongoProgram {
  readonly title: string;
  readonly from: string;
  readonly command: string;
  args(place: { readonly port: number; readonly folder: string }): string[];
  readonly query?: string;
}

interface Place {
  readonly program: MongoProgram;
  readonly guard: Guard;
  readonly port: number;
}

/** A private server: a folder, a port and a process of its own, all of which `stop` or the death of this process removes. */
export async function startMongo(program: MongoProgram): Promise<Server> {
  const guard = await startGuard(join(tmpdir(), "onceflow-mongodb-"), "SIGKILL");
  try {
    return await poll(
      START_BOUND_MS,
      async () => {
        // Somebody may take the port before the server does: then it is another one's turn.
        const place = { program, guard, port: await freePort() };
        const server = await tryToStart(place);
        return server && runningAt(place, server);
      },
      () => `${program.title} found no free port within ${START_BOUND_MS} ms`,
    );
  } catch (error) {
    await guard.release();
    throw error;
  }
}

function runningAt(place: Place, first: ChildProcess): Server {
  const { title, from } = place.program;
  let server = first;
  const kill = async () => {
    if (server.pid !== undefined && !hasEnded(server)) signal(server.pid, "SIGKILL");
    await poll(
      START_BOUND_MS,
      () => hasEnded(server) || undefined,
      () => `${title} (process ${server.pid}) outlived SIGKILL`,
    );
  };
  return {
    from,
    url: urlOf(place),
    folder: place.guard.folder,
    get pid() {
      return hasEnded(server) ? undefined : server.pid;
    },
    kill,
    restart: async () => {
      if (!hasEnded(server)) return;
      const late = () => `${title} could not be started again on port ${place.port} within ${START_BOUND_MS} ms`;
      server = await poll(START_BOUND_MS, () => tryToStart(place), late);
    },
    stop: async () => {
      await kill();
      await place.guard.release();
    },
  };
}

/** The server, once it answers; undefined when something else still holds its port. */
async function tryToStart(place: Place): Promise<ChildProcess | undefined> {
  const { title } = place.program;
  const log = join(place.guard.folder, "server.log");
  const server = launch(place, log);
  const up = await poll(
    START_BOUND_MS,
    async () => (hasEnded(server) ? false : (await answers(urlOf(place))) || undefined),
    () => `${title} did not answer within ${START_BOUND_MS} ms`,
  );
  if (up) return server;
  const said = await readFile(log, "utf8");
  if (/EADDRINUSE|in use/.test(said)) return undefined;
  throw new Error(`${title} ended as soon as it was started: ${excerpt(said)}`);
}

function launch({ program, guard, port }: Place, log: string): ChildProcess {
  const args = program.args({ port, folder: guard.folder });
  return launchServer({ command: program.command, args, cwd: guard.folder, log, guard });
}

export async function answers(url: string): Promise<boolean> {
  const client = new MongoClient(url, { serverSelectionTimeoutMS: 500 });
  try {
    await client.db("admin").command({ ping: 1 });
    return true;
  } catch {
    return false;
  } finally {
    await client.close();
  }
}

function urlOf({ program, port }: Place): string {
  return `mongodb://127.0.0.1:${port}/onceflow${program.query ?? ""}`;
}
