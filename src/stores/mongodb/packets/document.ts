import type { UpdateFilter } from "mongodb";
import { rowOf } from "../../../core/ledger/record.js";
import type { DeliveryEntry } from "../../../core/packets/delivery-entry.js";
import type { DeadLetter, NewPart } from "../../../core/packets/operation.js";
import type { ExecutionNote, FlowState, PacketKey, PacketNote, PacketState, PartRecord } from "../../../core/packets/packet.js";
import { untilWoken } from "../../../core/packets/rules/lane.js";
import type { ExecutionRow, PacketRow } from "../../../core/packets/rules/table.js";
import { type Attributes, attributeText } from "../../../core/values/attributes.js";
import { labelsIn } from "../../shared/execution-labels.js";
import { laneName } from "../../shared/packet-wishes.js";

/**
 * A packet as it is stored. Members that are null in its row are absent. `claimAt`, `inLane`, `heldBy`, `aside` and `reaching` repeat
 * other members, and exist only while the packet belongs into the index that is made of them.
 */
export interface PacketDocument {
  /** The packet's number. */
  readonly _id: number;
  readonly flow: string;
  readonly queue: string;
  readonly execution?: number;
  readonly lane?: string;
  readonly part?: NewPart;
  readonly payload: string;
  readonly createdAt: number;
  readonly state: PacketState;
  readonly owner?: number;
  readonly attempt: number;
  readonly since: number;
  readonly crashes: number;
  readonly dueAt: number;
  readonly key?: PacketKey;
  readonly place?: number;
  readonly hold?: "key" | "lane";
  /** A list, because the name of a port could not always be the name of a member. */
  readonly parts?: readonly (PartRecord & { readonly port: string })[];
  readonly history?: string;
  readonly note?: PacketNote;
  readonly dead?: { readonly name: string; readonly at: number; readonly expiresAt?: number };
  readonly letter?: DeadLetter;
  readonly deadBlocks?: true;
  /** Ports of joins that the packet may still fill. */
  readonly reach?: readonly string[];
  /** `dueAt`, while the packet waits for that time. */
  readonly claimAt?: number;
  /** Flow, queue and lane, while the packet has a position in the lane. */
  readonly inLane?: string;
  /** Scope and key, while the packet waits for the key. */
  readonly heldBy?: string;
  /** The execution, while the packet is a part, kept or a dead letter. */
  readonly aside?: number;
  /** The execution, while the packet counts for its joins: it has a `reach` and is not kept. */
  readonly reaching?: number;
  /** The claim that has taken the packet: see `DoubtfulClaims`. */
  readonly claim?: number;
}

/** Members that never change. */
const fixed = ["flow", "queue", "execution", "lane", "part", "payload"] as const;

export interface ExecutionDocument extends Omit<ExecutionRow, "no" | "endedAt" | "retentionMs" | "key" | "attributes"> {
  readonly _id: number;
  readonly key?: string;
  readonly endedAt?: number;
  readonly retentionMs?: number;
  readonly expiresAt?: number;
  /** JSON, because the name of an attribute could not always be the name of a member. */
  readonly attributes?: string;
  /** Name and value of each attribute in one text, for the index. */
  readonly labels?: readonly string[];
  /** The number of notes that the execution has had. */
  readonly noted: number;
  /** Increased by a transaction that depends on this document or on the parts of the execution: see `write.ts`. */
  readonly touched?: number;
}

export interface NoteDocument extends ExecutionNote {
  /** Execution and number of the note. */
  readonly _id: string;
}

export interface DeliveryDocument extends DeliveryEntry {
  /** Execution, packet and attempt. */
  readonly _id: string;
}

/** A lane with packets. Two transactions that change the lane conflict here. */
export interface LaneDocument {
  readonly _id: string;
  readonly touched: number;
}

export interface FlowDocument {
  readonly _id: string;
  readonly state: FlowState;
}

export interface PacketWorkerDocument {
  readonly _id: number;
  readonly leaseUntil: number;
}

type Members = Readonly<Record<string, unknown>>;

/** All members of a packet that can change, undefined if they are absent. */
function changing(row: PacketRow): Members {
  const { no: _, flow, queue, execution, lane, place, key, state, owner, dueAt, parts, dead, hold } = row;
  const waits = owner === null && (state === "due" || state === "held" || state === "part") && dueAt < untilWoken;
  const isAside = state === "part" || state === "kept" || state === "dead";
  return {
    state,
    owner: owner ?? undefined,
    attempt: row.attempt,
    since: row.since,
    crashes: row.crashes,
    dueAt,
    // A part that is retried is a new packet with the same number.
    createdAt: row.createdAt,
    key: key ?? undefined,
    place: place ?? undefined,
    hold: hold ?? undefined,
    parts: parts === null ? undefined : Object.entries(parts).map(([port, { no, payload }]) => ({ port, no, payload })),
    history: row.history ?? undefined,
    note: row.note ?? undefined,
    dead: dead === null ? undefined : { name: dead.name, at: dead.at, ...(dead.expiresAt !== null && { expiresAt: dead.expiresAt }) },
    letter: row.letter ?? undefined,
    deadBlocks: row.deadBlocks || undefined,
    claimAt: waits ? dueAt : undefined,
    inLane: lane !== null && place !== null ? laneName({ flow, queue, lane }) : undefined,
    heldBy: hold === "key" && key !== null ? rowOf(key) : undefined,
    aside: isAside && execution !== null ? execution : undefined,
    reach: row.reach ?? undefined,
    reaching: row.reach !== null && state !== "kept" && execution !== null ? execution : undefined,
  };
}

function present(members: Members): Members {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));
}

export function toPacketDocument(row: PacketRow): PacketDocument {
  const never = Object.fromEntries(fixed.map((name) => [name, row[name] ?? undefined]));
  return { _id: row.no, ...present(never), ...present(changing(row)) } as unknown as PacketDocument;
}

/** The update that writes a changed row. `claim`: the number of the claim that writes it. */
export function packetUpdate(row: PacketRow, claim: number | undefined): UpdateFilter<PacketDocument> {
  const members = { ...changing(row), ...(claim !== undefined && { claim }) };
  const absent = Object.entries(members).filter(([, value]) => value === undefined);
  return { $set: present(members), $unset: Object.fromEntries(absent.map(([name]) => [name, ""])) } as UpdateFilter<PacketDocument>;
}

/** The row of a document, which may be without its payload. */
export function toPacketRow(document: Omit<PacketDocument, "payload"> & { readonly payload?: string }): PacketRow {
  const { _id: no, parts, dead } = document;
  return {
    no,
    flow: document.flow,
    queue: document.queue,
    state: document.state,
    owner: document.owner ?? null,
    attempt: document.attempt,
    since: document.since,
    crashes: document.crashes,
    dueAt: document.dueAt,
    execution: document.execution ?? null,
    key: document.key ?? null,
    lane: document.lane ?? null,
    payload: document.payload ?? "",
    parts: parts === undefined ? null : Object.fromEntries(parts.map((part) => [part.port, { no: part.no, payload: part.payload }])),
    history: document.history ?? null,
    note: document.note ?? null,
    createdAt: document.createdAt,
    dead: dead === undefined ? null : { name: dead.name, at: dead.at, expiresAt: dead.expiresAt ?? null },
    hold: document.hold ?? null,
    place: document.place ?? null,
    deadBlocks: document.deadBlocks ?? false,
    part: document.part ?? null,
    letter: document.letter ?? null,
    reach: document.reach ?? null,
  };
}

export function toExecutionDocument(row: ExecutionRow, noted: number): ExecutionDocument {
  const { no: _id, flow, entry, input, key, open, duplicates, dead, createdAt, outputs, retentionMs, scope, attributes } = row;
  return {
    ...{ _id, flow, entry, input, open, duplicates, dead, createdAt, outputs, noted },
    ...(key !== null && { key }),
    ...(retentionMs !== null && { retentionMs }),
    ...(scope !== undefined && { scope }),
    ...(attributes !== undefined && { attributes: JSON.stringify(attributes), labels: labelsOf(attributes) }),
    ...(present(endOf(row)) as Pick<ExecutionDocument, "endedAt" | "expiresAt">),
  };
}

/** Names have no "=". */
export const labelOf = (name: string, text: string): string => `${name}=${text}`;

function labelsOf(attributes: Attributes): string[] {
  return Object.entries(attributes).map(([name, value]) => labelOf(name, attributeText(value)));
}

/** The update that writes a changed execution, or only touches it. */
export function executionUpdate(row: ExecutionRow | undefined, noted: number | undefined): UpdateFilter<ExecutionDocument> {
  const counted = row && { open: row.open, duplicates: row.duplicates, dead: row.dead, outputs: row.outputs, ...endOf(row) };
  const members = { ...counted, ...(noted !== undefined && { noted }) };
  const absent = Object.entries(members).filter(([, value]) => value === undefined);
  return {
    $inc: { touched: 1 },
    ...(Object.keys(members).length > absent.length && { $set: present(members) }),
    ...(absent.length > 0 && { $unset: Object.fromEntries(absent.map(([name]) => [name, ""])) }),
  } as UpdateFilter<ExecutionDocument>;
}

function endOf({ endedAt, retentionMs }: ExecutionRow): { endedAt: number | undefined; expiresAt: number | undefined } {
  return { endedAt: endedAt ?? undefined, expiresAt: endedAt === null || retentionMs === null ? undefined : endedAt + retentionMs };
}

export function toExecutionRow(document: Omit<ExecutionDocument, "input"> & { readonly input?: string }): ExecutionRow {
  const { _id: no, flow, entry, open, duplicates, dead, createdAt, outputs } = document;
  return {
    ...{ no, flow, entry, open, duplicates, dead, createdAt, outputs },
    input: document.input ?? "",
    key: document.key ?? null,
    endedAt: document.endedAt ?? null,
    retentionMs: document.retentionMs ?? null,
    ...labelsIn({ scope: document.scope ?? null, attributes: document.attributes ?? null }),
  };
}

const digits = 4;

/** Sorts in the order of the notes. */
export const noteId = (execution: number, n: number): string => `${execution}:${String(n).padStart(digits, "0")}`;
/** Of notes and of entries of the history. */
export const idsOf = (execution: number) => ({ _id: { $gte: `${execution}:`, $lt: `${execution};` } });
