import { InvalidInputError } from "../../core/errors/errors.js";
import type { DeclaredNode } from "../node/node-type.js";

/**
 * Throws if packets can reach the node without a key. The packet's number would not do as a key: it is unique in one store, and the
 * stores of two environments may call the same server.
 */
export function mustBeKeyed({ arrivals }: DeclaredNode, effect: string): void {
  const other = arrivals.find(({ keyed }) => !keyed);
  if (other === undefined) return;
  throw new InvalidInputError(
    other.name,
    `has no idempotencyKey, so ${effect}; add one to the edge (or idempotency to the node), or set settings.withoutKey: true`,
  );
}

/** A packet of a direct or ephemeral edge is not in the store, so it cannot wait there. */
export function mustBeStored({ arrivals }: DeclaredNode): void {
  const other = arrivals.find(({ mode }) => mode === "direct" || mode === "ephemeral");
  if (other !== undefined)
    throw new InvalidInputError(other.name, `is ${other.mode}, and its packets are not in the store; make it durable or checkpoint`);
}
