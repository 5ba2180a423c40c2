import { type HistoryEntry, historyOf } from "../../../core/packets/history.js";
import {
  type ExecutionNote,
  type ExecutionRecord,
  type ExecutionStatus,
  type PacketRecord,
  statusOf,
} from "../../../core/packets/packet.js";
import type { Attributes } from "../../../core/values/attributes.js";
import { storeMade } from "../alerts/store-made.js";
import { type Data, decodeOutput, decodePayload, type FlowOutput } from "../delivery/payload.js";
import { executionId, packetId } from "./ids.js";

/** An execution: everything that comes of one trigger. */
export interface ExecutionView {
  readonly id: string;
  readonly flow: string;
  readonly status: ExecutionStatus;
  /** The queue of its first packet. */
  readonly entry: string;
  readonly key: string | undefined;
  /** Packets that are not yet delivered. */
  readonly open: number;
  /** Packets that were acknowledged instead of delivered, because their key was completed. Repeated triggers do not count. */
  readonly duplicates: number;
  readonly dead: number;
  readonly createdAt: Date;
  readonly endedAt: Date | undefined;
  /** "": none. */
  readonly scope: string;
  readonly attributes: Attributes;
}

/** An execution with its input, outputs, notes and open packets. */
export interface ExecutionDetails extends ExecutionView {
  readonly input: Data;
  /** Packets that nodes sent to ports without an edge. */
  readonly outputs: readonly FlowOutput[];
  /** Unusual events, oldest first. */
  readonly notes: readonly NoteView[];
  /** Its packets that are still in the store. */
  readonly packets: readonly PacketView[];
}

/** Something unusual that happened in an execution. */
export interface NoteView extends Omit<ExecutionNote, "at" | "packet" | "queue"> {
  readonly at: Date;
  readonly packetId: string;
  readonly edge: string;
}

/** A packet of an execution that is still in the store. */
export interface PacketView {
  readonly id: string;
  readonly edge: string;
  readonly state: "due" | "held" | "part" | "dead" | "kept" | "delivering";
  readonly attempt: number;
  readonly key: string | undefined;
}

/** A packet that failed for good: it is not retried automatically. */
export interface DeadLetterView {
  readonly id: string;
  readonly flow: string;
  /** The dead-letter queue that it is in. */
  readonly queue: string;
  readonly edge: string;
  readonly executionId: string | undefined;
  readonly key: string | undefined;
  readonly attempts: number;
  readonly deadAt: Date;
  readonly expiresAt: Date | undefined;
  /** The last error. */
  readonly error: { readonly code: string; readonly message: string };
}

/** A dead letter with its payload and the errors of its attempts. */
export interface DeadLetterDetails extends DeadLetterView {
  /** By port, if its node has several input ports. */
  readonly payload: Data;
  readonly history: readonly HistoryEntry[];
}

export function executionView(record: ExecutionRecord): ExecutionView {
  const { no, flow, entry, key, open, duplicates, dead, createdAt, endedAt, scope = "", attributes = {} } = record;
  return {
    id: executionId(no),
    flow,
    status: statusOf(record),
    entry,
    key: key ?? undefined,
    open,
    duplicates,
    dead,
    createdAt: new Date(createdAt),
    endedAt: endedAt === null ? undefined : new Date(endedAt),
    scope,
    attributes,
  };
}

export function executionDetails(
  record: ExecutionRecord,
  notes: readonly ExecutionNote[],
  packets: readonly PacketRecord[],
): ExecutionDetails {
  return {
    ...executionView(record),
    input: decodePayload(record.input).data,
    outputs: record.outputs.map(decodeOutput),
    notes: notes.map(({ at, packet, queue, kind, about }) => ({ at: new Date(at), kind, edge: queue, packetId: packetId(packet), about })),
    packets: packets.map(({ no, queue, state, owner, attempt, key }) => {
      return { id: packetId(no), edge: queue, state: owner === null ? state : "delivering", attempt, key: key?.key };
    }),
  };
}

export function deadLetterView(record: PacketRecord): DeadLetterView {
  const { no, flow, queue, execution, key, attempt, dead, note } = record;
  const last = historyOf(record.history).at(-1);
  return {
    id: packetId(no),
    flow,
    queue: dead?.name ?? "",
    edge: queue,
    executionId: execution === null ? undefined : executionId(execution),
    key: key?.key,
    // Attempts in memory are counted only in the history.
    attempts: Math.max(attempt, last?.attempt ?? 0),
    deadAt: new Date(dead?.at ?? 0),
    expiresAt: typeof dead?.expiresAt === "number" ? new Date(dead.expiresAt) : undefined,
    error: note === null && last ? { code: last.code, message: last.message } : storeMade(note),
  };
}

/** `port`: the input port of the packet itself; its parts name theirs. */
export function deadLetterDetails(record: PacketRecord, port: string): DeadLetterDetails {
  const own = decodePayload(record.payload).data;
  const parts = Object.entries(record.parts ?? {}).map(([name, part]) => [name, decodePayload(part.payload).data] as const);
  const payload = parts.length === 0 ? own : { [port]: own, ...Object.fromEntries(parts) };
  return { ...deadLetterView(record), payload, history: historyOf(record.history) };
}
