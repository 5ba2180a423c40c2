import type { OperatorLog } from "../../runs/log.js";
import type { PacketAct, PacketActed, PacketChange } from "../operation.js";
import { discard, reinject } from "./letters.js";
import type { PacketTable } from "./table.js";

/** Does an operator's action and logs it, or does nothing. An action that was sent before is found in the log, whatever has become of its packets. */
export function actOnce(log: OperatorLog, { log: entry, change }: PacketAct, apply: (change: PacketChange) => boolean): PacketActed {
  const earlier = log.logged(entry.id);
  if (earlier !== undefined) return { kind: "acted", entry: earlier, repeated: true };
  return apply(change) ? { kind: "acted", entry: log.insertLog(entry), repeated: false } : { kind: "absent" };
}

export type LetterChange = Exclude<PacketChange, { kind: "flow" }>;

/** Returns how many of the packets were dead letters. */
export function changeLetters(table: PacketTable, change: LetterChange): number {
  if (change.kind === "discard") return change.letters.filter(({ no }) => discard(table, no) !== undefined).length;
  return change.letters.filter(({ no, alert }) => reinject(table, no, alert) !== undefined).length;
}
