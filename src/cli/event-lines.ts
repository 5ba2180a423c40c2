import { printable } from "../core/errors/printable.js";
import type { FlowInfo, RuntimeEvent } from "../exports/graph.js";
import { padded, widthOf } from "./width.js";

/** Returns a function that formats an event as one line with aligned columns; undefined for `delivering`, whose end is printed. */
export function eventLines(flows: readonly FlowInfo[]): (event: RuntimeEvent) => string | undefined {
  const longest = (names: readonly string[]) => Math.max(0, ...names.map(widthOf));
  const flowWidth = longest(flows.map(({ id }) => id));
  const nodeWidth = longest(flows.flatMap(({ plan }) => [...plan.nodes.keys()]));
  return (event) => {
    if (event.type === "delivering") return undefined;
    const flow = "flow" in event ? event.flow : "";
    const execution = ("executionId" in event && event.executionId) || "";
    const node = "node" in event ? event.node : "";
    const cells = [event.type.padEnd(12), padded(flow, flowWidth), execution.padEnd(13), padded(node, nodeWidth), detailOf(event)];
    return printable(cells.join("  ")).trimEnd();
  };
}

function detailOf(event: RuntimeEvent): string {
  switch (event.type) {
    case "triggered":
      return event.key === undefined ? "" : `key ${event.key}`;
    case "processed":
      return `${Math.round(event.ms)} ms${event.attempt > 1 ? `, attempt ${event.attempt}` : ""}`;
    case "acknowledged":
      return event.mismatch ? "key already completed with a different packet" : "key already completed";
    case "retrying":
      return `${event.code}: ${event.message}; retry in ${Math.round(event.delayMs)} ms`;
    case "dead":
      return `${event.code}: ${event.message}${event.deadLetter === undefined ? "" : `; ${event.packetId} in ${event.deadLetter}`}`;
    case "ended":
      return event.status;
    case "storeTrouble":
      return event.message;
    default:
      return "";
  }
}
