import type { Entry, RunAnswer, RunOperation } from "../../../core/runs/operation.js";
import { decodeEvents, storedParts } from "../../../workflow/journal/codec.js";
import type { Event } from "../../../workflow/journal/event.js";
import { resolutionIn } from "../../../workflow/journal/mail/resolution.js";

/** The line of the trace for one operation. Values that are not derived from the seed, such as random owner ids, are left out. */
export function describeOperation(operation: RunOperation): string {
  switch (operation.verb) {
    case "start":
      return `start ${operation.id}${operation.first ? ` ${describeEntry(operation.first.entry)}` : ""}`;
    case "append":
      return `append ${operation.id} e${operation.epoch} #${operation.seq} ${describeEntry(operation.entry)}`;
    case "appendLate":
      return `append late ${operation.id} e${operation.epoch} #${operation.seq} ${decodeEvents(operation.events).map(describeEvent).join(", ")}`;
    case "send": {
      const to = "run" in operation.to ? operation.to.run : `"${operation.to.token}"`;
      // The payload of a resolution contains a random id of its caller: only the attempt is printed.
      const payload = operation.kind === "resolve" ? `attempt ${resolutionIn(operation.payload).attempt}` : operation.payload?.slice(0, 60);
      return `send ${operation.kind} to ${to}${payload === undefined ? "" : ` ${payload}`}`;
    }
    case "act":
      return `act ${operation.log.action} on ${operation.id}`;
    case "write":
      return `write ${operation.id} e${operation.epoch} ${operation.chunks.map(({ writer, n, attempt }) => `${writer}/${attempt}:${n}`).join(" ")}`;
  }
}

export function describeAnswer(answer: RunAnswer): string {
  return answer.kind === "sent" && answer.duplicate ? "duplicate" : answer.kind;
}

function describeEntry({ events, consumed, children, then }: Entry): string {
  const parts = [events === null ? "no events" : decodeEvents(events).map(describeEvent).join(", ")];
  if (consumed !== null) parts.push(`mail ≤ ${consumed}`);
  if (children.length > 0) parts.push(`children ${children.map(({ id }) => id).join(" ")}`);
  if (then.kind === "release") parts.push(`release until ${then.wakeAt}${then.status === "running" ? "" : ` (${then.status})`}`);
  if (then.kind === "end") parts.push(`end ${then.status}`);
  return parts.join("; ");
}

function describeEvent(event: Event): string {
  switch (event.type) {
    case "step":
    case "done":
    case "doubt":
      return `${event.type} ${event.id}/${event.attempt}`;
    case "fail":
      return `${event.type} ${event.id}/${event.attempt}${event.retryAt === null ? "" : " again"}`;
    case "sleep":
      return `${event.id} until ${event.until}`;
    case "claim":
    case "fence":
      return event.type;
    default:
      return `${event.type} ${storedParts(event).about}`;
  }
}
