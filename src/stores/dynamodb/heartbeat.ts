import { renewStalledLeases } from "../heartbeat/thread.js";

/** The entry point of the heartbeat thread that `openDynamo` starts. */
void renewStalledLeases("dynamodb", async (url: string) => {
  await (await import("./driver.js")).loadDriver();
  const { openDynamo } = await import("./index.js");
  return () => openDynamo({ url, check: false });
});
