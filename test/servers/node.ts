import { join } from "node:path";
import { runCommand, START_BOUND_MS } from "./process/command.js";
import type { Found, Provider, Runtime } from "./provider.js";
import { cachedPackage } from "./sources/npm-cache.js";

/** A Node of this major version. */
function node(major: number): Provider<Runtime> {
  const start = async ({ from, path }: Found): Promise<Runtime> => {
    const version = (await runCommand(path, ["--version"], { boundMs: START_BOUND_MS })).trim();
    if (!version.startsWith(`v${major}.`)) throw new Error(`${path} is Node ${version}`);
    return { from: `${from}, ${version}`, path, stop: async () => {} };
  };
  const given = `ONCEFLOW_TEST_NODE${major}`;
  return {
    title: `Node ${major}`,
    env: { given, from: `${given}_FROM` },
    given: (path) => start({ from: given, path }),
    sources: [
      { name: "machine", seek: () => thisNode(major) },
      { name: "npm", seek: () => nodeFromNpm(major) },
    ],
    start,
  };
}

export const node20 = node(20);
export const node22 = node(22);
export const node24 = node(24);

async function thisNode(major: number): Promise<Found> {
  if (!process.version.startsWith(`v${major}.`)) throw new Error(`this is Node ${process.version}`);
  return { from: "the Node that runs this", path: process.execPath };
}

/** The npm package `node` only installs one of these packages, which carry the binary. */
async function nodeFromNpm(major: number): Promise<Found> {
  const windows = process.platform === "win32";
  // On this platform the name without "bin" belongs to another package, whose versions end at 18.
  const prefix = process.platform === "darwin" && process.arch === "arm64" ? "node-bin" : "node";
  const name = `${prefix}-${windows ? "win" : process.platform}-${process.arch}`;
  // Not every platform has every version, so this takes the newest one of the major version.
  const folder = await cachedPackage(name, String(major));
  return { from: `the npm package ${name}`, path: join(folder, "bin", windows ? "node.exe" : "node") };
}
