import { suspectDeaths } from "../../work/in-hand.js";
import { type HistoryEntry, historyOf } from "../history.js";
import type { PacketRecord } from "../packet.js";

/** The code of an entry in a packet's history that says: from here on this attempt has its worker to itself. */
const aloneCode = "ALONE";

/**
 * The last entry of a suspect's history. `died`: workers that died over the packet before this attempt while they had
 * nothing else. `alone`: whether that is still so; false where the worker has lived long enough.
 */
interface TrialEntry extends HistoryEntry {
  readonly died: number;
  readonly alone: boolean;
}

export interface PacketTrial {
  /** Workers that died in a row while they had the packet, since it was last delivered to an end. */
  readonly deaths: number;
  /** Those among them that had nothing else: only these are held against it. */
  readonly died: number;
}

/** What is known of deaths over a packet, of which its record counts only all. */
export function trialOf(packet: Pick<PacketRecord, "attempt" | "crashes" | "history">): PacketTrial {
  if (packet.crashes < suspectDeaths) return { deaths: packet.crashes, died: 0 };
  const history = entriesOf(packet);
  const ended = history.findLast(({ code }) => code !== aloneCode)?.attempt ?? 0;
  const deaths = Math.min(packet.crashes, packet.attempt - 1 - ended);
  const last = history.at(-1);
  if (!isTrial(last)) return { deaths, died: 0 };
  return { deaths, died: last.died + (last.alone && last.attempt < packet.attempt ? 1 : 0) };
}

/** Whether its worker has said that it delivers the packet by itself, in the attempt that is under way. */
export function isAlone(packet: Pick<PacketRecord, "attempt" | "crashes" | "history">): boolean {
  if (packet.crashes < suspectDeaths) return false;
  const last = entriesOf(packet).at(-1);
  return isTrial(last) && last.alone && last.attempt === packet.attempt;
}

/** The history of a packet that is about to be delivered by itself; or, not `alone`, beside others again. */
export function trialHistory(packet: Pick<PacketRecord, "attempt" | "crashes" | "history">, alone: boolean, at: number): string {
  const { deaths, died } = trialOf(packet);
  const history = entriesOf(packet);
  const before = isTrial(history.at(-1)) ? history.slice(0, -1) : history;
  const message = alone
    ? `${deaths} workers in a row died while they had it: delivered by itself`
    : "its worker was alive after it had been alone for long enough: delivered beside others";
  const entry: TrialEntry = { attempt: packet.attempt, at, ms: 0, code: aloneCode, message, died, alone };
  return JSON.stringify([...before, entry]);
}

function isTrial(entry: HistoryEntry | undefined): entry is TrialEntry {
  return entry?.code === aloneCode;
}

/** What can't be read here, for want of a key, says nothing. */
function entriesOf(packet: Pick<PacketRecord, "history">): readonly HistoryEntry[] {
  try {
    return historyOf(packet.history);
  } catch {
    return [];
  }
}
