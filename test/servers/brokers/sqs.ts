import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { acquireFrom } from "../acquire-from.js";
import { node24 } from "../node.js";
import { startProgram } from "../process/program-server.js";
import type { Found, Provider, Server } from "../provider.js";
import { cachedPackage } from "../sources/npm-cache.js";
import { clientOf } from "./sqs-queues.js";

const FAUXQS_VERSION = "2.4.1";

/** The emulator listens on every address of the machine, and has no option to change that. */
const LAUNCHER = `
import { Server } from "node:net";
const [from, port, dataDir] = process.argv.slice(1);
const listen = Server.prototype.listen;
Server.prototype.listen = function (options, ...rest) {
  return listen.call(this, { ...options, host: "127.0.0.1" }, ...rest);
};
const { startFauxqs } = await import(from);
await startFauxqs({ port: Number(port), dataDir, logger: false });
`;

/**
 * Amazon has no SQS that runs locally, so this is an emulator with its queues in a file.
 * ONCEFLOW_TEST_SQS_URL (sqs://key:secret@region/?endpoint=…) names a real one for the same suites.
 */
export const sqs: Provider<Server> = {
  title: "SQS (emulator)",
  env: { given: "ONCEFLOW_TEST_SQS_URL", from: "ONCEFLOW_TEST_SQS_FROM" },
  given: serverAt,
  sources: [{ name: "npm", seek: fromNpm }],
  start,
};

/** A server that was given by its URL, such as AWS itself: the tests create and remove queues there. */
async function serverAt(url: string): Promise<Server> {
  if (!(await answers(url))) throw new Error("it does not list its queues");
  return { from: "ONCEFLOW_TEST_SQS_URL", url, stop: async () => {} };
}

async function fromNpm(): Promise<Found> {
  return { from: `the npm package fauxqs@${FAUXQS_VERSION}`, path: await cachedPackage("fauxqs", FAUXQS_VERSION) };
}

/** It keeps its queues in node:sqlite, which needs a newer Node than the one that runs the tests. */
async function start({ from, path }: Found): Promise<Server> {
  const node = await acquireFrom(node24);
  if (!node.ok) throw new Error(node.reason);
  const entry = pathToFileURL(join(path, "dist", "app.js")).href;
  return await startProgram({
    title: "SQS (emulator)",
    from,
    command: node.running.path,
    args: ({ port, folder }) => ["--input-type=module", "-e", LAUNCHER, entry, String(port), folder],
    url: (port) => `sqs://local:local@us-east-1/?endpoint=http://127.0.0.1:${port}`,
    answers,
  });
}

async function answers(url: string): Promise<boolean> {
  const client = clientOf(url);
  try {
    await client.listQueues({ MaxResults: 1 });
    return true;
  } catch {
    return false;
  } finally {
    client.destroy();
  }
}
