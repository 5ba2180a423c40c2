import { InvalidInputError } from "../../../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../../../core/errors/known-options.js";
import type { DeliveryEntry, DeliveryQuery, DeliveryVerdict } from "../../../core/packets/delivery-entry.js";
import type { PacketBackend } from "../../../core/packets/operation.js";
import { type ExecutionNote, notesMax } from "../../../core/packets/packet.js";
import { memoryRoute } from "../memory-edges/memory-mark.js";
import { packetId } from "../views/ids.js";
import { type DeliveryValues, type RecordedValue, recordedValue } from "./values.js";

/** One line of the history of an execution: a delivery that has ended, or an unusual event. */
export interface HistoryItem {
  /** How the delivery ended, or the kind of the event (as in the notes of the execution). */
  readonly verdict: DeliveryVerdict | ExecutionNote["kind"];
  /** When it was committed (store clock). */
  readonly at: Date;
  readonly packetId: string;
  readonly edge: string;
  readonly node: string | undefined;
  readonly attempt: number | undefined;
  /** When the attempt began, on the clock of its process. Undefined for an event. */
  readonly startedAt: Date | undefined;
  readonly ms: number | undefined;
  /** Code of the error, and its message, if the history is "full". */
  readonly code: string | undefined;
  readonly message: string | undefined;
  /** Details of an event, such as the key. */
  readonly about: string | undefined;
  /** Packets that the delivery sent. */
  readonly sent: readonly string[];
  /** The other packets that the node got together with this one. */
  readonly joined: readonly string[];
  /** Undefined: not recorded. */
  readonly values: HistoryValues | undefined;
}

/** Input and output of a delivery. */
export interface HistoryValues {
  readonly input: readonly (RecordedValue & { readonly port: string })[];
  /** Packets that were sent along edges. */
  readonly sent: readonly (RecordedValue & { readonly edge: string })[];
  /** Packets that no edge takes. */
  readonly outputs: readonly (RecordedValue & { readonly node: string; readonly port: string })[];
  /** Values that were left out, because the delivery had too many. */
  readonly more: number;
}

/** A page of the history, oldest first. */
export interface HistoryPage {
  readonly items: readonly HistoryItem[];
  /** Pass it as `cursor` for the next page. Undefined: this is the last page. */
  readonly next: string | undefined;
}

/** Options of `runtime.history`. */
export interface HistoryQuery {
  /** At most 1,000; default 100. */
  readonly limit?: number;
  /** `next` of the previous page. */
  readonly cursor?: string;
}

const optionNames: OptionNames<HistoryQuery> = { limit: true, cursor: true };
const pageMax = 1000;

/**
 * A place in the history. Of the same time, first come notes of what precedes a delivery, then entries, then the other notes. A note is known
 * by its number in the list of notes.
 */
type Place = { readonly at: number } & (
  | { readonly packet: number; readonly attempt: number }
  | { readonly note: number; readonly precedes: boolean }
);

/** These notes are followed by a delivery of their packet. */
const preceding: readonly ExecutionNote["kind"][] = ["crashed", "reinjected", "joinReleased"];

interface Line {
  readonly place: Place;
  readonly item: HistoryItem;
}

/** Names the node of a queue, if this process knows it. */
type NodeOf = (queue: string) => string | undefined;

/**
 * One page of the entries and the notes of an execution, merged by time. Notes that a recorded delivery has written with its entry are left
 * out.
 */
export async function readHistory(packets: PacketBackend, execution: number, query: HistoryQuery, nodeOf: NodeOf): Promise<HistoryPage> {
  knownOptions("history", query, optionNames);
  const { limit = 100, cursor } = query;
  if (!Number.isInteger(limit) || limit < 1 || limit > pageMax)
    throw new InvalidInputError("limit", `must be a whole number from 1 to ${pageMax}, not ${String(limit)}`);
  const after = cursor === undefined ? undefined : placeOf(cursor);
  const [entries, notes] = await Promise.all([
    packets.deliveries({ execution, ...afterPlace(after), limit: limit + 1 }),
    packets.notes(execution, notesMax),
  ]);
  const all = [...entries.map(ofEntry), ...(await standAlone(packets, execution, notes, nodeOf))];
  const lines = all.filter(({ place }) => after === undefined || compare(place, after) > 0).sort((a, b) => compare(a.place, b.place));
  const page = lines.slice(0, limit);
  const last = page.at(-1);
  return { items: page.map(({ item }) => item), next: lines.length > limit && last ? cursorOf(last.place) : undefined };
}

/** All lines about one packet, and the deliveries that it came from and went into. */
export interface PacketLines {
  readonly items: readonly HistoryItem[];
  readonly sentBy: HistoryItem | undefined;
  readonly joinedInto: HistoryItem | undefined;
}

/** Undefined `execution`: that of the packet's entries. Returns undefined if the store has no history of the packet. */
export async function readPacketLines(
  packets: PacketBackend,
  no: number,
  known: number | undefined,
  nodeOf: (execution: number) => Promise<NodeOf>,
): Promise<(PacketLines & { readonly execution: number }) | undefined> {
  const own = await packets.deliveries({ packets: [no], limit: pageMax });
  const execution = known ?? own[0]?.execution;
  if (execution === undefined) return undefined;
  const notes = await packets.notes(execution, notesMax);
  const events = await standAlone(packets, execution, notes, await nodeOf(execution), no);
  const items = [...own.map(ofEntry), ...events].sort((a, b) => compare(a.place, b.place)).map(({ item }) => item);
  let sentBy: HistoryItem | undefined;
  let joinedInto: HistoryItem | undefined;
  for (let after: DeliveryEntry | undefined; ; ) {
    const page: readonly DeliveryEntry[] = await packets.deliveries({ execution, ...(after && { after }), limit: pageMax });
    for (const entry of page) {
      if (sentBy === undefined && entry.sent.includes(no)) sentBy = ofEntry(entry).item;
      if (entry.joined.includes(no)) joinedInto = ofEntry(entry).item;
    }
    after = page.at(-1);
    if (after === undefined || page.length < pageMax) return { execution, items, sentBy, joinedInto };
  }
}

/** Kinds of notes that a settle writes, together with its entry if it has one. */
const writtenBySettles: readonly ExecutionNote["kind"][] = ["dead", "dropped", "skipped", "restarted"];

/** Notes that no entry repeats; only those of `packet`, if given. */
async function standAlone(
  packets: PacketBackend,
  execution: number,
  notes: readonly ExecutionNote[],
  nodeOf: NodeOf,
  packet?: number,
): Promise<Line[]> {
  const lines = notes
    .map((note, i) => ({ note, line: ofNote(note, i, nodeOf) }))
    .filter(({ note }) => packet === undefined || note.packet === packet);
  const settled = [...new Set(lines.filter(({ note }) => writtenBySettles.includes(note.kind)).map(({ note }) => note.packet))];
  const entries = settled.length === 0 ? [] : await packets.deliveries({ execution, packets: settled, limit: pageMax });
  const isRepeated = ({ kind, at, packet: of }: ExecutionNote) =>
    writtenBySettles.includes(kind) && entries.some((entry) => entry.packet === of && entry.at === at);
  // The mark of a packet in memory is no packet; that it was lost is reported with its dead letter.
  return lines.filter(({ note }) => note.queue !== memoryRoute.queue && !isRepeated(note)).map(({ line }) => line);
}

function ofEntry(entry: DeliveryEntry): Line {
  const { packet, queue, node, attempt, verdict, at, startedAt, ms, code, sent, joined, details } = entry;
  const values = details === null ? undefined : (JSON.parse(details) as DeliveryValues);
  return {
    place: { at, packet, attempt },
    item: {
      verdict,
      at: new Date(at),
      packetId: packetId(packet),
      edge: queue,
      node,
      attempt,
      startedAt: new Date(startedAt),
      ms,
      code: code ?? undefined,
      message: values?.message,
      about: undefined,
      sent: sent.map(packetId),
      joined: joined.map(packetId),
      values: values && valuesOf(values),
    },
  };
}

function valuesOf({ input, sent, outputs, more = 0 }: DeliveryValues): HistoryValues {
  return {
    input: input.map(([port, value]) => ({ port, ...recordedValue(value) })),
    sent: sent.map(([edge, value]) => ({ edge, ...recordedValue(value) })),
    outputs: outputs.map(([node, port, value]) => ({ node, port, ...recordedValue(value) })),
    more,
  };
}

function ofNote({ at, kind, queue, packet, about }: ExecutionNote, note: number, nodeOf: NodeOf): Line {
  const attempt = kind === "crashed" ? Number(about) : undefined;
  const absent = { startedAt: undefined, ms: undefined, code: undefined, message: undefined, sent: [], joined: [], values: undefined };
  const item = { verdict: kind, at: new Date(at), packetId: packetId(packet), edge: queue, node: nodeOf(queue), attempt, ...absent };
  return {
    place: { at, note, precedes: preceding.includes(kind) },
    item: { ...item, about: kind === "crashed" ? undefined : (about ?? undefined) },
  };
}

function compare(a: Place, b: Place): number {
  if (a.at !== b.at || rankOf(a) !== rankOf(b)) return a.at - b.at || rankOf(a) - rankOf(b);
  if ("note" in a) return "note" in b ? a.note - b.note : 0;
  return "note" in b ? 0 : a.packet - b.packet || a.attempt - b.attempt;
}

function rankOf(place: Place): number {
  return "note" in place ? (place.precedes ? 0 : 2) : 1;
}

function afterPlace(place: Place | undefined): Pick<DeliveryQuery, "after"> {
  if (place === undefined) return {};
  if ("note" in place) return { after: { at: place.at, packet: place.precedes ? -1 : Number.MAX_SAFE_INTEGER, attempt: 0 } };
  return { after: place };
}

function cursorOf(place: Place): string {
  return "note" in place ? `${place.at}-${place.precedes ? "p" : "n"}${place.note}` : `${place.at}-${place.packet}-${place.attempt}`;
}

function placeOf(cursor: unknown): Place {
  const [, at = "", kind, note, packet, attempt] = /^(\d{1,15})-(?:([np])(\d{1,5})|(\d{1,16})-(\d{1,9}))$/.exec(String(cursor)) ?? [];
  if (at === "") throw new InvalidInputError("cursor", "must be `next` of the previous page");
  if (note === undefined) return { at: Number(at), packet: Number(packet), attempt: Number(attempt) };
  return { at: Number(at), note: Number(note), precedes: kind === "p" };
}
