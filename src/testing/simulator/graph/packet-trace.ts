import type { PacketAnswer, PacketClaimQuery, PacketClaims, PacketOperation } from "../../../core/packets/operation.js";
import type { PacketBook } from "./packet-book.js";

/** The line of the trace for one operation, with the packet names of the observer. */
export function describeOperation(book: PacketBook, operation: PacketOperation, answer: PacketAnswer | "again"): string {
  const result = answer === "again" ? "again" : answer.kind;
  const placed = answer !== "again" && "placed" in answer ? answer.placed.map(({ kind }) => kind) : [];
  const sent = operation.packets.map(({ no }, i) => `${book.packets.get(no)?.name ?? no} ${placed[i] ?? ""}`).join(", ");
  const sends = sent === "" ? "" : `, sends ${sent}`;
  if (operation.verb === "sendPackets")
    return `w${operation.worker} triggers ${operation.execution?.key?.key ?? "without a key"} → ${result}${sends}`;
  const { no, worker, attempt, to } = operation;
  return `w${worker} settles ${book.packets.get(no)?.name ?? no} attempt ${attempt}: ${to.kind} → ${result}${sends}`;
}

export function describeClaims(book: PacketBook, { worker }: PacketClaimQuery, { claimed, closed }: PacketClaims): string {
  const taken = claimed.map(({ no, attempt }) => `${book.packets.get(no)?.name ?? no} attempt ${attempt}`);
  const ended = closed.map(({ no, to }) => `${book.packets.get(no)?.name ?? no} is ${to}`);
  return `w${worker} claims ${[...taken, ...ended].join(", ")}`;
}
