import { ConfigurationError } from "../../../core/errors/errors.js";
import type { Store } from "../../../core/store/store.js";
import { isOutputQueue } from "../delivery/outputs.js";
import type { Route, Routed } from "../flows/routes.js";

/** Whether packets of an edge that are in the store are delivered: a direct one takes nothing from there. */
function delivers(route: Route | undefined): boolean {
  return route !== undefined && route.delivery.mode !== "direct";
}

/**
 * A document may lose an edge while packets of it wait. They are not lost: a process whose document has the edge delivers
 * them. Nobody here does, and that is said.
 */
export async function tellStranded({ packets }: Store, flows: ReadonlyMap<string, Routed>): Promise<void> {
  for (const { flow, queue, due, held, parts } of await packets.counts()) {
    const waiting = due + held + parts;
    const routed = flows.get(flow);
    if (waiting === 0 || routed === undefined || delivers(routed.routes.get(queue))) continue;
    const what = `${waiting} ${waiting === 1 ? "packet" : "packets"} of edge ${queue} of flow "${flow}"`;
    process.emitWarning(`${what} cannot be delivered: its document has no such edge any more; run one that has, until they are gone`, {
      type: "OnceflowWarning",
      code: "ONCEFLOW_STRANDED",
    });
  }
}

/** Of a letter that is to be delivered again: else it would wait, and not even be a dead letter any more. */
export function checkEdge({ flow, queue }: { readonly flow: string; readonly queue: string }, routed: Routed | undefined): void {
  // Of a flow that is not here nothing is known.
  if (routed === undefined || delivers(routed.routes.get(queue))) return;
  if (isOutputQueue(queue))
    throw new ConfigurationError(
      `[onceflow] flow "${flow}" declares no output ${queue.slice(0, -2)} with an edge that leads from it; declare it and re-inject the letter, or discard it`,
      { code: "EDGE_GONE" },
    );
  throw new ConfigurationError(
    `[onceflow] edge ${queue} is not in flow "${flow}" any more, and would not be delivered; re-inject it where the document has it, or discard it`,
    { code: "EDGE_GONE" },
  );
}
