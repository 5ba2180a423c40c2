import { renewStalledLeases } from "../heartbeat/thread.js";
import type { SqliteOptions } from "./backend.js";

/** The program of the thread that `sqliteBackend` starts. */
void renewStalledLeases("sqlite", async (file: SqliteOptions) => {
  const { sqliteBackend } = await import("./backend.js");
  return () => sqliteBackend(file);
});
