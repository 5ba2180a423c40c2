import { renewStalledLeases } from "../heartbeat/thread.js";

/** The entry point of the heartbeat thread that `openRedis` starts. */
void renewStalledLeases("redis", async (url: string) => {
  await (await import("./driver.js")).loadDriver();
  const { openRedis } = await import("./index.js");
  return () => openRedis({ url, check: false });
});
