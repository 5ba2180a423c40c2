import type { Hono } from "hono";
import { sleep } from "../core/work/clock.js";
import type { Runtime } from "../exports/graph.js";
import { metricsText } from "./metrics.js";
import { openApi } from "./openapi.js";

/** Maximum time that the store may take to answer. */
const healthMsMax = 5000;

/** Registered before the token guard, so that load balancers can call it; it reveals only whether the store is reachable. */
export function addHealthRoute(app: Hono, runtime: Runtime): void {
  app.get("/health", async (c) => {
    const reachable = await reaches(runtime);
    return c.json({ status: reachable ? "ok" : "store unreachable" }, reachable ? 200 : 503);
  });
}

/** Metrics and the OpenAPI document. */
export function addStatusRoutes(app: Hono, runtime: Runtime): void {
  app.get("/metrics", async (c) => c.body(await metricsText(runtime), 200, { "content-type": "text/plain; version=0.0.4; charset=utf-8" }));

  app.get("/openapi.json", (c) => c.json(openApi));
}

/** Makes one short read. A store that is closed, returns an error or does not answer in time counts as unreachable. */
async function reaches({ store }: Runtime): Promise<boolean> {
  if (store.closed) return false;
  const stop = new AbortController();
  const read = store.packets.flowState("onceflow.health").then(
    () => true,
    () => false,
  );
  const late = sleep(store.clock, healthMsMax, stop.signal).then(
    () => false,
    () => false,
  );
  return await Promise.race([read, late]).finally(() => stop.abort());
}
