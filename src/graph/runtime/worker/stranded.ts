import { ConfigurationError } from "../../../core/errors/errors.js";
import type { Store } from "../../../core/store/store.js";
import { isOutputQueue } from "../flows/output-route.js";
import type { Route, Routed } from "../flows/route.js";

/** Whether packets of this queue in the store are delivered: a direct edge takes none from there. */
function delivers(route: Route | undefined): boolean {
  return route !== undefined && route.delivery.mode !== "direct";
}

/** Warns of packets whose edge was removed from the document: they wait until a process runs a document that has the edge. */
export async function warnOfStranded({ packets }: Store, flows: ReadonlyMap<string, Routed>): Promise<void> {
  for (const { flow, queue, due, held, parts } of await packets.counts()) {
    const waiting = due + held + parts;
    const routed = flows.get(flow);
    if (waiting === 0 || routed === undefined || delivers(routed.routes.get(queue))) continue;
    const what = `${waiting} ${waiting === 1 ? "packet" : "packets"} of edge ${queue} of flow "${flow}"`;
    process.emitWarning(
      `[onceflow] ${what} cannot be delivered: the document no longer has this edge; run a document that has it until they are delivered`,
      {
        type: "OnceflowWarning",
        code: "ONCEFLOW_STRANDED",
      },
    );
  }
}

/** Throws if no edge would deliver a retried dead letter: it would wait without end, and no longer be listed as dead. */
export function checkEdge({ flow, queue }: { readonly flow: string; readonly queue: string }, routed: Routed | undefined): void {
  // The edges of a flow that this runtime does not run are not known here.
  if (routed === undefined || delivers(routed.routes.get(queue))) return;
  if (isOutputQueue(queue))
    throw new ConfigurationError(
      `[onceflow] flow "${flow}" declares no output ${queue.slice(0, -2)} with an edge; declare both and retry the dead letter, or discard it`,
      { code: "EDGE_GONE" },
    );
  throw new ConfigurationError(
    `[onceflow] flow "${flow}" no longer has edge ${queue}, so the dead letter cannot be delivered; retry it with a document that has the edge, or discard it`,
    { code: "EDGE_GONE" },
  );
}
