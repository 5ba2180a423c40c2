import { closeSync, fdatasyncSync, openSync, readFileSync, writeSync } from "node:fs";
import { createRequire } from "node:module";
import { availableParallelism, cpus, loadavg, release, totalmem, type } from "node:os";
import { join } from "node:path";
import { median } from "./measure.js";

/** The conditions of a measurement besides the code, by name. They contain no path and no host name, because results are published. */
export type Conditions = Readonly<Record<string, string>>;

export function machine(folder: string): Conditions {
  return {
    date: new Date().toISOString().slice(0, 10),
    cores: `${availableParallelism()} × ${cpus()[0]?.model ?? "unknown"}`,
    memory: `${Math.round(totalmem() / 1024 ** 3)} GiB`,
    system: `${type()} ${release()}`,
    // The load by other programs: figures from a busy machine are good for ratios only.
    "load before the run": (loadavg()[0] ?? 0).toFixed(2),
    node: process.versions.node,
    "one fdatasync of 4 KiB": `${syncMs(folder).toFixed(3)} ms (median of 200)`,
  };
}

/** The duration of one sync on this disk: no durable write can be faster. */
function syncMs(folder: string): number {
  const file = openSync(join(folder, "sync"), "w");
  const page = Buffer.alloc(4096, 1);
  try {
    const tookMs = Array.from({ length: 200 }, () => {
      const at = performance.now();
      writeSync(file, page);
      fdatasyncSync(file);
      return performance.now() - at;
    });
    return median(tookMs);
  } finally {
    closeSync(file);
  }
}

/** The installed version of a package, whether or not it exports its package.json. */
export function versionOf(name: string): string {
  const entry = createRequire(import.meta.url).resolve(name);
  const folder = entry.slice(0, entry.lastIndexOf(join("node_modules", name)) + join("node_modules", name).length);
  return (JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as { version: string }).version;
}
