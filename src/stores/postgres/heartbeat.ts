import { renewStalledLeases } from "../heartbeat/thread.js";
import type { PostgresOptions } from "./backend.js";

/** The entry point of the heartbeat thread that `postgresBackend` starts. */
void renewStalledLeases("postgres", async (address: PostgresOptions) => {
  await (await import("./driver.js")).loadDriver();
  const { postgresBackend } = await import("./backend.js");
  return () => postgresBackend({ ...address, check: false });
});
