import { renewStalledLeases } from "../heartbeat/thread.js";
import type { SqliteOptions } from "./backend.js";

/** The program of the thread that `sqliteBackend` starts. */
await renewStalledLeases(async (file: SqliteOptions) => {
  const { sqliteBackend } = await import("./backend.js");
  return () => sqliteBackend(file);
});
