import type { ChildProcess } from "node:child_process";
import { readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { poll } from "../../kit/poll.js";
import type { Server } from "../provider.js";
import { excerpt, START_BOUND_MS } from "./command.js";
import { freePort } from "./free-port.js";
import { type Guard, startGuard } from "./guard.js";
import { hasEnded, launchServer } from "./launch.js";
import { signal } from "./processes.js";
import { handToUnprivilegedUser, type RunAs } from "./unprivileged-user.js";

/** A server that is one program on a port of loopback, with its data in a folder. */
export interface ServerProgram {
  readonly title: string;
  readonly from: string;
  readonly command: string;
  args(place: PlaceOfProgram): string[];
  env?(place: PlaceOfProgram): NodeJS.ProcessEnv;
  url(port: number): string;
  answers(url: string): Promise<boolean>;
  /** Must not run as root: root starts it as a user without rights, who gets the folder. */
  readonly unprivileged?: boolean;
  /** How long it may take to start on a busy machine, if longer than other servers. */
  readonly startMsMax?: number;
}

interface PlaceOfProgram {
  readonly port: number;
  readonly folder: string;
}

interface Place {
  readonly program: ServerProgram;
  readonly guard: Guard;
  readonly user: RunAs;
  readonly port: number;
}

/** A private server with its own folder, port and process. `stop`, or the death of this process, removes all of them. */
export async function startProgram(program: ServerProgram): Promise<Server> {
  const guard = await startGuard(join(tmpdir(), "onceflow-server-"), "SIGKILL");
  try {
    const user = program.unprivileged ? await handToUnprivilegedUser(guard.folder) : {};
    return await poll(
      boundOf(program),
      async () => {
        // Another process may take the port before the server does: then another port is tried.
        const place = { program, guard, user, port: await freePort() };
        const server = await tryToStart(place);
        return server && runningAt(place, server);
      },
      () => `${program.title} found no free port within ${boundOf(program)} ms`,
    );
  } catch (error) {
    await guard.release();
    throw error;
  }
}

function runningAt(place: Place, first: ChildProcess): Server {
  const { title, from } = place.program;
  let server = first;
  return {
    from,
    url: urlOf(place),
    folder: place.guard.folder,
    get pid() {
      return hasEnded(server) ? undefined : server.pid;
    },
    kill: () => killProgram(server, title),
    restart: async () => {
      if (!hasEnded(server)) return;
      const late = () => `${title} could not be started again on port ${place.port} within ${boundOf(place.program)} ms`;
      server = await poll(boundOf(place.program), () => tryToStart(place), late);
    },
    stop: async () => {
      await killProgram(server, title);
      await place.guard.release();
    },
  };
}

export async function killProgram(server: ChildProcess, title: string): Promise<void> {
  if (server.pid !== undefined && !hasEnded(server)) signal(server.pid, "SIGKILL");
  await poll(
    START_BOUND_MS,
    () => hasEnded(server) || undefined,
    () => `${title} (process ${server.pid}) outlived SIGKILL`,
  );
}

/** Returns the server when it answers, or undefined if its port is still in use. */
async function tryToStart(place: Place): Promise<ChildProcess | undefined> {
  const { title, answers } = place.program;
  const log = join(place.guard.folder, "server.log");
  const server = launch(place, log);
  const up = await poll(
    boundOf(place.program),
    async () => (hasEnded(server) ? false : (await answers(urlOf(place))) || undefined),
    () => `${title} did not answer within ${boundOf(place.program)} ms`,
  );
  if (up) return server;
  const output = await readFile(log, "utf8");
  if (/EADDRINUSE|in use/i.test(output)) return undefined;
  throw new Error(`${title} ended as soon as it was started: ${excerpt(output)}`);
}

function launch({ program, guard, user, port }: Place, log: string): ChildProcess {
  const place = { port, folder: guard.folder };
  const env = program.env?.(place);
  return launchServer({
    command: program.command,
    args: program.args(place),
    cwd: guard.folder,
    log,
    guard,
    user,
    ...(env === undefined ? {} : { env: { ...process.env, ...env } }),
  });
}

function boundOf({ startMsMax = START_BOUND_MS }: ServerProgram): number {
  return startMsMax;
}

function urlOf({ program, port }: Place): string {
  return program.url(port);
}
