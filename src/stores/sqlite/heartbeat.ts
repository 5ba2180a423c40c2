import { renewStalledLeases } from "../heartbeat/thread.js";
import type { SqliteOptions } from "./backend.js";

/** The entry point of the heartbeat thread that `sqliteBackend` starts. */
void renewStalledLeases("sqlite", async (file: SqliteOptions) => {
  const { sqliteBackend } = await import("./backend.js");
  return () => sqliteBackend(file);
});
