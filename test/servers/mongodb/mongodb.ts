import { join } from "node:path";
import type { Found, Provider, Server } from "../provider.js";
import { cachedPackage, packageRoot } from "../sources/npm-cache.js";
import { answers, startMongo } from "./server.js";

const MINGO_VERSION = "7.2.6";
const JONGODB_VERSION = "0.1.6";

/**
 * Neither the packages of the machine nor npm have a mongod, so this is an emulator: our own server of the protocol, with mingo
 * for the query language. docs/adr/0022-mongodb.md says what it proves and what it does not.
 * ONCEFLOW_TEST_MONGODB_URL names a real server for the same suites.
 */
export const mongodb: Provider<Server> = emulator("MongoDB (emulator)", []);

/** The same without a replica set: no transactions. */
export const mongodbStandalone: Provider<Server> = emulator("a standalone MongoDB (emulator)", ["--standalone"]);

/** The same, with the version number of an old server. */
export const mongodbOld: Provider<Server> = emulator("an old MongoDB (emulator)", ["--version", "4.4.29"]);

/** Another server of the protocol, without pipelines in updates and without a clock: the store must refuse it. */
export const jongodb: Provider<Server> = {
  title: "jongodb",
  env: { given: "ONCEFLOW_TEST_JONGODB_URL", from: "ONCEFLOW_TEST_JONGODB_FROM" },
  unsupported: () => (process.platform === "linux" && process.arch === "x64" ? undefined : "its binary runs on Linux x64 only"),
  given: (url) => serverAt("ONCEFLOW_TEST_JONGODB_URL", url),
  sources: [{ name: "npm", seek: jongodbFromNpm }],
  start: ({ from, path }) => startMongo({ title: "jongodb", from, command: path, args: ({ port }) => [`--port=${port}`] }),
};

function emulator(title: string, flags: readonly string[]): Provider<Server> {
  const program = join(packageRoot(), ".build", "test", "servers", "mongodb", "emulator", "main.js");
  const given = flags.length === 0 ? "ONCEFLOW_TEST_MONGODB_URL" : `ONCEFLOW_TEST_MONGODB${flags[0]?.replace("--", "_").toUpperCase()}_URL`;
  return {
    title,
    env: { given, from: "ONCEFLOW_TEST_MONGODB_FROM" },
    given: (url) => serverAt(given, url),
    sources: [{ name: "npm", seek: mingoFromNpm }],
    start: ({ from, path }) =>
      startMongo({
        title,
        from,
        command: process.execPath,
        args: ({ port, folder }) => [program, "--port", String(port), "--folder", folder, "--mingo", path, ...flags],
      }),
  };
}

/** A server that was given by its URL: the tests may use it, but neither stop nor kill it. */
async function serverAt(variable: string, url: string): Promise<Server> {
  if (!(await answers(url))) throw new Error("it does not answer");
  return { from: variable, url, stop: async () => {} };
}

async function mingoFromNpm(): Promise<Found> {
  return { from: "an emulator with the npm package mingo", path: await cachedPackage("mingo", MINGO_VERSION) };
}

async function jongodbFromNpm(): Promise<Found> {
  const name = "@jongodb/memory-server-bin-linux-x64-gnu";
  return { from: `the npm package ${name}`, path: join(await cachedPackage(name, JONGODB_VERSION), "bin", "jongodb") };
}
