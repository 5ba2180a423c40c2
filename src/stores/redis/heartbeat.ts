import { renewStalledLeases } from "../heartbeat/thread.js";

/** The entry point of the heartbeat thread that `openRedis` starts. */
await renewStalledLeases(async (url: string) => {
  await (await import("./driver.js")).loadDriver();
  const { openRedis } = await import("./index.js");
  return () => openRedis({ url, check: false });
});
