import type { Hono } from "hono";
import type { Runtime, RuntimeEvent } from "../exports/graph.js";
import { eventStream } from "./event-stream.js";
import type { AppPolicy } from "./options.js";
import { ServerProblemError } from "./problem.js";

/** Streams the events of this process; `?flow=` and `?execution=` filter them. */
export function addEventRoute(app: Hono, runtime: Runtime, { listenersMax, ...policy }: AppPolicy): void {
  let listening = 0;
  app.get("/events", (c) => {
    if (policy.signal.aborted) throw new ServerProblemError("stopping");
    if (listening >= listenersMax) throw new ServerProblemError("too-many-listeners");
    const headers = { "content-type": "text/event-stream", "x-accel-buffering": "no" };
    // A HEAD request reads no body, so a stream would never be closed.
    if (c.req.method === "HEAD") return new Response(null, { headers });
    const { flow, execution } = c.req.query();
    const wanted = (event: RuntimeEvent): boolean =>
      (flow === undefined || ("flow" in event && event.flow === flow)) &&
      (execution === undefined || ("executionId" in event && event.executionId === execution));
    listening += 1;
    const stream = eventStream({
      ...policy,
      listen: (send) => runtime.on((event) => wanted(event) && send(event)),
      ended: () => (listening -= 1),
    });
    return new Response(stream, { headers });
  });
}
