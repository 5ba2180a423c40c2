import type { DeliveryVerdict, EntryToWrite, NewDeliveryEntry } from "../delivery-entry.js";
import type { PacketOutcome, SettlePacket } from "../operation.js";

/** What the settle's packet and the store say. */
interface Settled {
  readonly execution: number;
  readonly queue: string;
  /** The packet's edge has dead letters. */
  readonly hasLetter: boolean;
  readonly at: number;
}

/**
 * The entry that a settle writes into the history of its execution. Undefined: the settle ends no attempt. Also for statements that settle
 * without these rules.
 */
export function entryOf(
  { execution, queue, hasLetter, at }: Settled,
  { no: packet, attempt, to, packets }: SettlePacket,
  { memory, ...entry }: NewDeliveryEntry,
): EntryToWrite | undefined {
  const verdict = verdictOf(to, hasLetter);
  if (verdict === undefined) return undefined;
  const sent = packets.filter((each) => each.execution === execution).map(({ no }) => no);
  return { execution, packet, queue, attempt, verdict, at, sent, ...entry, ...memory };
}

function verdictOf(to: PacketOutcome, hasLetter: boolean): DeliveryVerdict | undefined {
  switch (to.kind) {
    case "done":
      return to.note === "skipped" || to.note === "restarted" ? to.note : "completed";
    case "retry":
      return "retry";
    case "dead":
      return hasLetter ? "dead" : "dropped";
    case "release":
    case "trial":
      return undefined;
  }
}
