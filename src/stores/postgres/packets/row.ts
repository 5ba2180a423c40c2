import type { DeadLetter } from "../../../core/packets/operation.js";
import type { PacketKey, PacketNote, PacketState, PartRecord } from "../../../core/packets/packet.js";
import type { ExecutionRow, PacketRow } from "../../../core/packets/rules/table.js";
import { attributeText } from "../../../core/values/attributes.js";
import { reachIn, reachText } from "../../shared/census-book.js";
import { type FoundLabels, labelsIn } from "../../shared/execution-labels.js";
import type { Columns, Scalar } from "../parameters/columns.js";

/** A row of `packets` as JSON, with or without its payload. */
export interface PacketJson {
  readonly no: number;
  readonly flow: string;
  readonly queue: string;
  readonly state: PacketState;
  readonly owner: number | null;
  readonly attempt: number;
  readonly since: number;
  readonly crashes: number;
  readonly due_at: number;
  readonly execution: number | null;
  readonly scope: string | null;
  readonly key: string | null;
  readonly lane: string | null;
  readonly place: number | null;
  readonly hold: PacketRow["hold"];
  readonly node: string | null;
  readonly port: string | null;
  readonly payload?: string;
  readonly parts: string | null;
  readonly history: string | null;
  readonly note: PacketNote | null;
  readonly created_at: number;
  readonly dead_name: string | null;
  readonly dead_at: number | null;
  readonly expires_at: number | null;
  readonly terms: string | null;
  readonly reach: string | null;
}

interface Terms {
  readonly key?: Pick<PacketKey, "fingerprint" | "retentionMs" | "onMismatch">;
  readonly part?: { readonly ports: readonly string[]; readonly waitMs: number; readonly optional?: readonly string[] };
  readonly letter?: DeadLetter;
  readonly deadBlocks?: true;
}

/** Columns that never change come first. */
export const packetColumns: Columns = [
  ["no", "bigint"],
  ["flow", "text"],
  ["queue", "text"],
  ["execution", "bigint"],
  ["lane", "text"],
  ["node", "text"],
  ["port", "text"],
  ["payload", "text"],
  ["state", "text"],
  ["owner", "bigint"],
  ["attempt", "int"],
  ["since", "int"],
  ["crashes", "int"],
  ["due_at", "bigint"],
  ["scope", "text"],
  ["key", "text"],
  ["place", "bigint"],
  ["hold", "text"],
  ["parts", "text"],
  ["history", "text"],
  ["note", "text"],
  ["created_at", "bigint"],
  ["dead_name", "text"],
  ["dead_at", "bigint"],
  ["expires_at", "bigint"],
  ["terms", "text"],
  ["reach", "text"],
];
const fixed = 8;

/** For an existing packet: its number, and the columns that can change. Not the payload, which never changes and may be long. */
export const changeColumns: Columns = [...packetColumns.slice(0, 1), ...packetColumns.slice(fixed)];

export const withoutPayload = packetColumns.map(([name]) => `p.${name}`).filter((name) => name !== "p.payload");

export function packetValues(row: PacketRow): Scalar[] {
  const { no, flow, queue, execution, lane, part, payload, state, owner, attempt, since, crashes, dueAt, key, place, hold } = row;
  return [
    ...[no, flow, queue, execution, lane, part?.node ?? null, part?.port ?? null, payload],
    ...[state, owner, attempt, since, crashes, dueAt, key?.scope ?? null, key?.key ?? null, place, hold],
    ...[row.parts && JSON.stringify(row.parts), row.history, row.note, row.createdAt],
    ...[row.dead?.name ?? null, row.dead?.at ?? null, row.dead?.expiresAt ?? null, termsOf(row), reachText(row.reach)],
  ];
}

export function changeValues(row: PacketRow): Scalar[] {
  const values = packetValues(row);
  return [row.no, ...values.slice(fixed)];
}

export function termsOf({ key, part, letter, deadBlocks }: Pick<PacketRow, "key" | "part" | "letter" | "deadBlocks">): string | null {
  if (key === null && part === null && letter === null && !deadBlocks) return null;
  const terms: Terms = {
    ...(key && { key: { fingerprint: key.fingerprint, retentionMs: key.retentionMs, onMismatch: key.onMismatch } }),
    ...(part && { part: { ports: part.ports, waitMs: part.waitMs, ...(part.optional && { optional: part.optional }) } }),
    ...(letter && { letter }),
    ...(deadBlocks && { deadBlocks }),
  };
  return JSON.stringify(terms);
}

export function toPacket(json: PacketJson): PacketRow {
  const { scope, key, node, port, parts, dead_name: name, dead_at: at, expires_at: expiresAt } = json;
  const terms = json.terms === null ? {} : (JSON.parse(json.terms) as Terms);
  return {
    no: json.no,
    flow: json.flow,
    queue: json.queue,
    state: json.state,
    owner: json.owner,
    attempt: json.attempt,
    since: json.since,
    crashes: json.crashes,
    dueAt: json.due_at,
    execution: json.execution,
    key: scope === null || key === null || !terms.key ? null : { scope, key, ...terms.key },
    lane: json.lane,
    payload: json.payload ?? "",
    parts: parts === null ? null : (JSON.parse(parts) as Record<string, PartRecord>),
    history: json.history,
    note: json.note,
    createdAt: json.created_at,
    dead: name === null || at === null ? null : { name, at, expiresAt },
    hold: json.hold,
    place: json.place,
    deadBlocks: terms.deadBlocks ?? false,
    part: node === null || port === null || !terms.part ? null : { node, port, ...terms.part },
    letter: terms.letter ?? null,
    reach: reachIn(json.reach),
  };
}

export interface ExecutionJson extends FoundLabels {
  readonly no: number;
  readonly flow: string;
  readonly entry: string;
  readonly input: string;
  readonly key: string | null;
  readonly open: number;
  readonly duplicates: number;
  readonly dead: number;
  readonly created_at: number;
  readonly ended_at: number | null;
  readonly outputs: string;
  readonly retention_ms: number | null;
}

export const executionColumns: Columns = [
  ["no", "bigint"],
  ["flow", "text"],
  ["entry", "text"],
  ["input", "text"],
  ["key", "text"],
  ["retention_ms", "bigint"],
  ["scope", "text"],
  ["attributes", "text"],
  ["created_at", "bigint"],
  ["open", "int"],
  ["duplicates", "int"],
  ["dead", "int"],
  ["ended_at", "bigint"],
  ["outputs", "text"],
  ["expires_at", "bigint"],
];
const executionFixed = 9;

export const executionChangeColumns: Columns = [...executionColumns.slice(0, 1), ...executionColumns.slice(executionFixed)];

export function executionValues(row: ExecutionRow): Scalar[] {
  const { no, flow, entry, input, key, retentionMs, scope, attributes, createdAt, open, duplicates, dead, endedAt, outputs } = row;
  const expiresAt = endedAt === null || retentionMs === null ? null : endedAt + retentionMs;
  const labels = [scope ?? null, attributes === undefined ? null : JSON.stringify(attributes)];
  return [
    ...[no, flow, entry, input, key, retentionMs, ...labels, createdAt],
    ...[open, duplicates, dead, endedAt, JSON.stringify(outputs), expiresAt],
  ];
}

export function executionChangeValues(row: ExecutionRow): Scalar[] {
  return [row.no, ...executionValues(row).slice(executionFixed)];
}

export const attributeColumns: Columns = [
  ["name", "text"],
  ["value", "text"],
  ["created_at", "bigint"],
  ["execution", "bigint"],
  ["scope", "text"],
];

/** A row for each attribute of an execution. */
export function attributeValues({ no, scope, attributes = {}, createdAt }: ExecutionRow): Scalar[][] {
  return Object.entries(attributes).map(([name, value]) => [name, attributeText(value), createdAt, no, scope ?? null]);
}

export function toExecution(json: ExecutionJson): ExecutionRow {
  const { no, flow, entry, input, key, open, duplicates, dead, outputs } = json;
  return {
    ...{ no, flow, entry, input, key, open, duplicates, dead },
    createdAt: json.created_at,
    endedAt: json.ended_at,
    retentionMs: json.retention_ms,
    outputs: JSON.parse(outputs) as string[],
    ...labelsIn(json),
  };
}
