import { suspectDeaths } from "../../work/in-hand.js";
import { type HistoryEntry, historyOf } from "../history.js";
import type { PacketRecord } from "../packet.js";

/** Code of a history entry that says: from now on this attempt runs alone in its worker. */
const aloneCode = "ALONE";

/**
 * The last entry of a suspect's history. `died`: workers that crashed before this attempt while they delivered the packet alone.
 * `alone`: whether this attempt runs alone; false once the worker has survived for long enough.
 */
interface TrialEntry extends HistoryEntry {
  readonly died: number;
  readonly alone: boolean;
}

export interface PacketTrial {
  /** Workers in a row that crashed while they had the packet, since its last delivery that ended. */
  readonly deaths: number;
  /** How many of them delivered the packet alone: only these count against it. */
  readonly died: number;
}

/** Reads from the history how many crashes count against a packet. The record itself counts all crashes. */
export function trialOf(packet: Pick<PacketRecord, "attempt" | "crashes" | "history">): PacketTrial {
  if (packet.crashes < suspectDeaths) return { deaths: packet.crashes, died: 0 };
  const history = entriesOf(packet);
  const ended = history.findLast(({ code }) => code !== aloneCode)?.attempt ?? 0;
  const deaths = Math.min(packet.crashes, packet.attempt - 1 - ended);
  const last = history.at(-1);
  if (!isTrial(last)) return { deaths, died: 0 };
  return { deaths, died: last.died + (last.alone && last.attempt < packet.attempt ? 1 : 0) };
}

/** Whether the current attempt runs alone in its worker, according to the history. */
export function isAlone(packet: Pick<PacketRecord, "attempt" | "crashes" | "history">): boolean {
  if (packet.crashes < suspectDeaths) return false;
  const last = entriesOf(packet).at(-1);
  return isTrial(last) && last.alone && last.attempt === packet.attempt;
}

/** The history of a packet that is about to be delivered alone, or, if `alone` is false, beside other packets again. */
export function trialHistory(packet: Pick<PacketRecord, "attempt" | "crashes" | "history">, alone: boolean, at: number): string {
  const { deaths, died } = trialOf(packet);
  const history = entriesOf(packet);
  const before = isTrial(history.at(-1)) ? history.slice(0, -1) : history;
  const message = alone
    ? `${deaths} workers in a row crashed while they had this packet: it is delivered alone`
    : "the worker survived while it delivered this packet alone: it is delivered beside others";
  const entry: TrialEntry = { attempt: packet.attempt, at, ms: 0, code: aloneCode, message, died, alone };
  return JSON.stringify([...before, entry]);
}

function isTrial(entry: HistoryEntry | undefined): entry is TrialEntry {
  return entry?.code === aloneCode;
}

/** Empty if the history cannot be decrypted here. */
function entriesOf(packet: Pick<PacketRecord, "history">): readonly HistoryEntry[] {
  try {
    return historyOf(packet.history);
  } catch {
    return [];
  }
}
