import { join } from "node:path";
import { connect } from "amqplib";
import { freePort } from "../process/free-port.js";
import { startProgram } from "../process/program-server.js";
import type { Found, Provider, Server } from "../provider.js";
import { installDebianPackage } from "../sources/debian.js";
import { programOnPath } from "../sources/on-path.js";

export const rabbitmq: Provider<Server> = {
  title: "RabbitMQ",
  env: { given: "ONCEFLOW_TEST_RABBITMQ_URL", from: "ONCEFLOW_TEST_RABBITMQ_FROM" },
  unsupported: () => (process.platform === "linux" ? undefined : "the tests look for its server in the folders of Debian"),
  given: serverAt,
  sources: [
    { name: "machine", seek: onThisMachine },
    { name: "debian", seek: fromDebian },
  ],
  start,
};

/** A server that was given by its URL: the tests may use it, but neither stop nor kill it. */
async function serverAt(url: string): Promise<Server> {
  if (!(await answers(url))) throw new Error("it does not answer");
  return { from: "ONCEFLOW_TEST_RABBITMQ_URL", url, stop: async () => {} };
}

/** The server's own script: the one on PATH must run as root, and writes into the data folder of the system's server. */
async function onThisMachine(): Promise<Found> {
  programOnPath("rabbitmq-server");
  return { from: "this machine", path: "/usr/lib/rabbitmq/bin/rabbitmq-server" };
}

async function fromDebian(): Promise<Found> {
  await installDebianPackage("rabbitmq-server");
  return { ...(await onThisMachine()), from: "the Debian package rabbitmq-server" };
}

/** Starts Erlang's name server (epmd) first: one that RabbitMQ starts itself would outlive it. */
async function start({ from, path }: Found): Promise<Server> {
  const names = await startProgram({
    title: "epmd",
    from,
    command: programOnPath("epmd"),
    args: ({ port }) => ["-port", String(port), "-address", "127.0.0.1"],
    url: String,
    answers: async () => true,
  });
  try {
    const distPort = await freePort();
    const server = await startProgram({
      title: "RabbitMQ",
      from,
      command: path,
      args: () => [],
      env: ({ port, folder }) => ({
        HOME: folder,
        ERL_EPMD_PORT: names.url,
        ERL_EPMD_ADDRESS: "127.0.0.1",
        RABBITMQ_NODENAME: "onceflow@localhost",
        RABBITMQ_NODE_IP_ADDRESS: "127.0.0.1",
        RABBITMQ_NODE_PORT: String(port),
        RABBITMQ_DIST_PORT: String(distPort),
        RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: "-kernel inet_dist_use_interface {127,0,0,1}",
        RABBITMQ_MNESIA_BASE: join(folder, "data"),
        RABBITMQ_LOG_BASE: folder,
        RABBITMQ_LOGS: "-",
        RABBITMQ_ENABLED_PLUGINS_FILE: join(folder, "plugins"),
        RABBITMQ_CONFIG_FILE: join(folder, "none"),
        // The script then replaces itself by the server, instead of staying its parent.
        RUNNING_UNDER_SYSTEMD: "true",
      }),
      url: (port) => `amqp://guest:guest@127.0.0.1:${port}`,
      answers,
      startMsMax: 120_000,
    });
    const stop = async () => {
      await server.stop();
      await names.stop();
    };
    return Object.defineProperties({}, { ...Object.getOwnPropertyDescriptors(server), stop: { value: stop } }) as Server;
  } catch (error) {
    await names.stop();
    throw error;
  }
}

async function answers(url: string): Promise<boolean> {
  const connection = await connect(url, { timeout: 1000 }).catch(() => undefined);
  // A broker that is still booting may reset the connection while it is closed: without a listener that would end the process.
  connection?.on("error", () => {});
  await connection?.close().catch(() => undefined);
  return connection !== undefined;
}
