import type { Evaluated } from "../../plan/expression.js";
import type { PacketProblem } from "../../plan/packets.js";
import type { Route } from "../flows/route.js";
import type { Data } from "./payload.js";

/** Why a packet does not match the schema of its edge; undefined if it does. */
export function problemOf(
  { packet }: Route,
  data: Data,
  problems: readonly PacketProblem[] = packet?.check(data) ?? [],
): string | undefined {
  if (problems.length === 0) return undefined;
  const list = problems.map(({ pointer, message }) => `${pointer || "/"} ${message}`).join("; ");
  return `packet does not match schema "${packet?.name}": ${list}`;
}

const noKey: Evaluated<undefined> = { ok: true, value: undefined };

/** The idempotency key that the edge's template makes of a packet. A missing field is an error, never the text "undefined". */
export function keyOf({ delivery: { key }, flow, node }: Route, data: Data): Evaluated<string | undefined> {
  if (key === undefined) return noKey;
  const made = key.make({ payload: data, operationId: node.plan.operationId, flowId: flow.id });
  return made.ok ? made : { ok: false, why: `idempotencyKey ${key.text}: ${made.why}` };
}
