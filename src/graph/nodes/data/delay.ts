import { InvalidInputError } from "../../../core/errors/errors.js";
import { DeliverLater, type StoredContext } from "../../node/deliver-later.js";
import { dataOf } from "../../node/input-data.js";
import { type NodeInput, NodeOutput } from "../../node/node.js";
import { NodeError } from "../../node/node-error.js";
import { type DeclaredNode, NodeType } from "../../node/node-type.js";
import { isoDurationMs } from "../../normalise/iso-duration.js";
import { mustBeStored } from "../arrivals.js";
import { compileSetting } from "../settings/expression.js";

/** A year: a longer delay is probably a mistake in the unit. */
const delayMsMax = 366 * 86_400_000;

/**
 * The ready-made node `delay`: passes a packet on after a time (`for`), or at an instant (`until`). The packet waits in the store, not
 * in the memory of a process: a restart neither loses nor shortens the delay, and a waiting packet takes no slot of a worker.
 *
 * @example
 * // in the document: settings: { for: PT10M }, or settings: { until: payload.sendAt }
 * createRuntime({ store, documents, nodes: [delay()] });
 */
export function delay(): NodeType {
  return new NodeType({
    operationId: "delay",
    settings: { properties: { for: { type: "string" }, until: { type: "string" } } },
    make(node) {
      mustBeStored(node);
      const dueAt = dueAtOf(node.settings);
      return (input: NodeInput) => {
        const { storeNow } = input.context as StoredContext;
        const leftMs = dueAt(input) - (storeNow ?? Date.now());
        if (leftMs > delayMsMax) throw new NodeError("VALIDATION", "settings.until: the instant is more than a year ahead");
        if (leftMs > 0) throw new DeliverLater(Math.ceil(leftMs));
        return new NodeOutput().send(node.output, dataOf(input));
      };
    },
  });
}

function dueAtOf(settings: DeclaredNode["settings"]): (input: NodeInput) => number {
  const { for: time, until } = settings as { readonly for?: string; readonly until?: string };
  if ((time === undefined) === (until === undefined))
    throw new InvalidInputError("settings", "must have either `for` (a time, such as PT10M) or `until` (an expression)");
  if (until !== undefined) {
    const instant = compileSetting("settings.until", until, "payload.sendAt");
    return (input) => instantOf(instant(input));
  }
  const ms = isoDurationMs(time as string);
  if (ms === undefined || ms > delayMsMax)
    throw new InvalidInputError("settings.for", "must be an ISO 8601 duration of at most a year, such as PT10M or P1D");
  return ({ context: { sentAt = Date.now() } }) => sentAt + ms;
}

/** With a time zone: without one the instant would depend on the machine. */
const dateTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)$/i;

function instantOf(value: unknown): number {
  const at = typeof value === "string" && dateTime.test(value) ? Date.parse(value) : typeof value === "number" ? value : Number.NaN;
  if (Number.isFinite(at)) return at;
  const rule = "must be a date with time and zone (2030-01-31T09:00:00Z), or milliseconds since 1970";
  throw new NodeError("VALIDATION", `settings.until: the value ${rule}`);
}
