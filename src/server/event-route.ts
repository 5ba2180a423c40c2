import type { Hono } from "hono";
import type { Runtime, RuntimeEvent } from "../exports/graph.js";
import { eventStream } from "./event-stream.js";
import type { AppPolicy } from "./options.js";
import { Refused } from "./problem.js";

/** What happens in this process, as it happens; of one flow or one execution, if asked so. */
export function addEventRoute(app: Hono, runtime: Runtime, { listenersMax, ...policy }: AppPolicy): void {
  let listening = 0;
  app.get("/events", (c) => {
    if (policy.signal.aborted) throw new Refused("stopping");
    if (listening >= listenersMax) throw new Refused("too-many-listeners");
    const headers = { "content-type": "text/event-stream", "x-accel-buffering": "no" };
    // Nobody would read the stream, nor end it.
    if (c.req.method === "HEAD") return new Response(null, { headers });
    const { flow, execution } = c.req.query();
    const wanted = (event: RuntimeEvent): boolean =>
      (flow === undefined || ("flow" in event && event.flow === flow)) &&
      (execution === undefined || ("executionId" in event && event.executionId === execution));
    listening += 1;
    const stream = eventStream({
      ...policy,
      listen: (tell) => runtime.on((event) => wanted(event) && tell(event)),
      ended: () => (listening -= 1),
    });
    return new Response(stream, { headers });
  });
}
