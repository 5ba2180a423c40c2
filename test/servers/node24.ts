import { join } from "node:path";
import { runCommand, START_BOUND_MS } from "./bounded.js";
import { cachedPackage } from "./npm-cache.js";
import type { Found, Provider, Runtime } from "./provider.js";

export const node24: Provider<Runtime> = {
  title: "Node 24",
  env: { given: "ONCEFLOW_TEST_NODE24", from: "ONCEFLOW_TEST_NODE24_FROM" },
  given: (path) => start({ from: "ONCEFLOW_TEST_NODE24", path }),
  sources: [
    { name: "machine", seek: thisNode },
    { name: "npm", seek: nodeFromNpm },
  ],
  start,
};

async function thisNode(): Promise<Found> {
  if (!process.version.startsWith("v24.")) throw new Error(`this is Node ${process.version}`);
  return { from: "the Node that runs this", path: process.execPath };
}

/** The npm package `node` is a script that installs one of these; they carry the binary. */
async function nodeFromNpm(): Promise<Found> {
  const windows = process.platform === "win32";
  // The name without "bin" was taken for this one platform, and its versions end at 18.
  const prefix = process.platform === "darwin" && process.arch === "arm64" ? "node-bin" : "node";
  const name = `${prefix}-${windows ? "win" : process.platform}-${process.arch}`;
  // Not every platform has every version, so the newest 24 there is.
  const folder = await cachedPackage(name, "24");
  return { from: `the npm package ${name}`, path: join(folder, "bin", windows ? "node.exe" : "node") };
}

async function start({ from, path }: Found): Promise<Runtime> {
  const version = (await runCommand(path, ["--version"], { boundMs: START_BOUND_MS })).trim();
  if (!version.startsWith("v24.")) throw new Error(`${path} is Node ${version}`);
  return { from: `${from}, ${version}`, path, stop: async () => {} };
}
