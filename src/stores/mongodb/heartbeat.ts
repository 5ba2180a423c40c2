import { renewStalledLeases } from "../heartbeat/thread.js";

/** The entry point of the heartbeat thread that `openMongo` starts. */
void renewStalledLeases("mongodb", async (url: string) => {
  await (await import("./driver.js")).loadDriver();
  const { openMongo } = await import("./index.js");
  return () => openMongo({ url, check: false });
});
