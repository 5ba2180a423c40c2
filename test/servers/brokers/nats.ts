import { connect } from "@nats-io/transport-node";
import { startProgram } from "../process/program-server.js";
import type { Found, Provider, Server } from "../provider.js";
import { installDebianPackage } from "../sources/debian.js";
import { programOnPath } from "../sources/on-path.js";

/** NATS with JetStream, its streams in files. */
export const nats: Provider<Server> = {
  title: "NATS",
  env: { given: "ONCEFLOW_TEST_NATS_URL", from: "ONCEFLOW_TEST_NATS_FROM" },
  given: serverAt,
  sources: [
    { name: "machine", seek: onThisMachine },
    { name: "debian", seek: fromDebian },
  ],
  start: ({ from, path }) =>
    startProgram({
      title: "NATS",
      from,
      command: path,
      args: ({ port, folder }) => ["-a", "127.0.0.1", "-p", String(port), "-js", "-sd", folder],
      url: (port) => `nats://127.0.0.1:${port}`,
      answers,
    }),
};

/** A server that was given by its URL: the tests may use it, but neither stop nor kill it. */
async function serverAt(url: string): Promise<Server> {
  if (!(await answers(url))) throw new Error("it does not answer");
  return { from: "ONCEFLOW_TEST_NATS_URL", url, stop: async () => {} };
}

async function onThisMachine(): Promise<Found> {
  return { from: "this machine", path: programOnPath("nats-server") };
}

async function fromDebian(): Promise<Found> {
  await installDebianPackage("nats-server");
  return { ...(await onThisMachine()), from: "the Debian package nats-server" };
}

async function answers(url: string): Promise<boolean> {
  const connection = await connect({ servers: url, timeout: 1000, reconnect: false }).catch(() => undefined);
  await connection?.close();
  return connection !== undefined;
}
