import { runCommand, START_BOUND_MS } from "../process/command.js";
import type { Found, Provider, Server } from "../provider.js";
import { installDebianPackage } from "../sources/debian.js";
import { startDynamo } from "./server.js";
import { clientOf } from "./tables.js";

const DEBIAN_PACKAGE = "openjdk-17-jre-headless";

const shared: Omit<Provider<Server>, "title" | "start"> = {
  env: { given: "ONCEFLOW_TEST_DYNAMODB_URL", from: "ONCEFLOW_TEST_DYNAMODB_FROM" },
  unsupported: () => (process.platform === "win32" ? "the tests use signals that do not exist on Windows" : undefined),
  given: serverAt,
  sources: [
    { name: "machine", seek: onThisMachine },
    { name: "debian", seek: fromDebian },
  ],
};

/** The real DynamoDB Local, in memory. */
export const dynamodb: Provider<Server> = { ...shared, title: "DynamoDB Local", start: (found) => startDynamo(found, "memory") };

/** The same with its data in a file, for tests that kill it. */
export const dynamodbOnDisk: Provider<Server> = {
  ...shared,
  title: "DynamoDB Local on disk",
  start: (found) => startDynamo(found, "disk"),
};

/** A server that was given by its URL, such as AWS itself: the tests create and remove tables there. */
async function serverAt(url: string): Promise<Server> {
  const client = clientOf(url);
  try {
    if (!(await client.answers())) throw new Error("it does not list its tables");
  } finally {
    client.close();
  }
  return { from: "ONCEFLOW_TEST_DYNAMODB_URL", url, stop: async () => {} };
}

/** Needs Java 17 or newer, with the compiler module, because the launcher is Java source. */
async function onThisMachine(): Promise<Found> {
  const modules = await runCommand("java", ["--list-modules"], { boundMs: START_BOUND_MS });
  const major = Number(/^java\.base@(\d+)/m.exec(modules)?.[1]);
  if (!(major >= 17)) throw new Error(`DynamoDB Local needs Java 17 or newer; this machine has Java ${major}`);
  if (!/^jdk\.compiler@/m.test(modules)) throw new Error("this Java has no module jdk.compiler");
  return { from: `Java ${major} of this machine`, path: "java" };
}

async function fromDebian(): Promise<Found> {
  await installDebianPackage(DEBIAN_PACKAGE);
  return { ...(await onThisMachine()), from: `the Debian package ${DEBIAN_PACKAGE}` };
}
