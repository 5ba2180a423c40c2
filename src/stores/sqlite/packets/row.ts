import type { PacketKey } from "../../../core/packets/packet.js";
import type { PacketRow, QueueId } from "../../../core/packets/rules/table.js";
import { reachIn, reachText } from "../../shared/census-book.js";
import type { Prepared } from "../connection/prepared.js";
import type { SqliteValue } from "../driver.js";
import { text } from "../runs/row.js";

/** A row of `onceflow_packets`. Members that are only read together are one JSON text. */
interface Columns {
  readonly no: number;
  readonly queue: number;
  readonly state: string;
  readonly owner: number | null;
  readonly attempt: number;
  readonly since: number;
  readonly crashes: number;
  readonly due_at: number;
  readonly execution: number | null;
  readonly created_at: number;
  readonly hold: string | null;
  readonly lane: string | null;
  readonly place: number | null;
  readonly dead_blocks: number;
  readonly key_scope: string | null;
  readonly key: string | null;
  readonly key_about: string | null;
  readonly node: string | null;
  readonly part: string | null;
  readonly letter: string | null;
  readonly dead_name: string | null;
  readonly dead_at: number | null;
  readonly expires_at: number | null;
  readonly note: string | null;
  readonly parts: string | null;
  readonly history: string | null;
  readonly payload: string;
  readonly reach: string | null;
}

/** The columns of each member that can change. */
const columnsOf: { readonly [Member in keyof PacketRow]?: (row: PacketRow) => Partial<Columns> } = {
  state: ({ state }) => ({ state }),
  owner: ({ owner }) => ({ owner }),
  attempt: ({ attempt }) => ({ attempt }),
  since: ({ since }) => ({ since }),
  crashes: ({ crashes }) => ({ crashes }),
  dueAt: ({ dueAt }) => ({ due_at: dueAt }),
  hold: ({ hold }) => ({ hold }),
  place: ({ place }) => ({ place }),
  note: ({ note }) => ({ note }),
  history: ({ history }) => ({ history }),
  letter: ({ letter }) => ({ letter: letterText(letter) }),
  dead: ({ dead }) => ({ dead_name: dead?.name ?? null, dead_at: dead?.at ?? null, expires_at: dead?.expiresAt ?? null }),
};

const columns = [
  ...["no", "queue", "state", "owner", "attempt", "since", "crashes", "due_at", "execution", "created_at", "hold", "lane", "place"],
  ...["dead_blocks", "key_scope", "key", "key_about", "node", "part", "letter", "parts", "history", "payload", "reach"],
];

/** A new row is not a dead letter and has no note. */
const insertPacket = `INSERT INTO onceflow_packets (${columns.join(", ")}) VALUES (${columns.map(() => "?").join(", ")})`;
/** For most packets: those without key, lane, parts and reach. Binding fewer values is faster. */
const insertPlain = `INSERT INTO onceflow_packets
  (no, queue, state, owner, attempt, since, crashes, due_at, execution, created_at, dead_blocks, letter, payload)
  VALUES (?, ?, 'due', ?, ?, 0, 0, ?, ?, ?, 0, ?, ?)`;
export const selectedPacket = [...columns, "dead_name", "dead_at", "expires_at", "note"].join(", ");

export function insertRow(sql: Prepared, row: PacketRow, queue: number): void {
  if (!isPlain(row)) {
    sql(insertPacket).run(...bindPacket(row, queue));
    return;
  }
  const { no, owner, attempt, dueAt, execution, createdAt, letter, payload } = row;
  sql(insertPlain).run(no, queue, owner, attempt, dueAt, execution, createdAt, letterText(letter), text(payload));
}

function isPlain({ state, key, lane, part, parts, history, reach }: PacketRow): boolean {
  return state === "due" && key === null && lane === null && part === null && parts === null && history === null && reach === null;
}

function bindPacket(row: PacketRow, queue: number): SqliteValue[] {
  const { no, state, owner, attempt, since, crashes, dueAt, execution, createdAt, hold, lane, place, deadBlocks } = row;
  const { key, part, letter, parts, history, payload } = row;
  const start = [no, queue, state, owner, attempt, since, crashes, dueAt, execution, createdAt, hold, text(lane), place];
  const keyed =
    key === null ? [null, null, null] : [text(key.scope), text(key.key), json([key.fingerprint, key.retentionMs, key.onMismatch])];
  const end = [text(part?.node ?? null), json(part), letterText(letter), json(parts), text(history), text(payload), reachText(row.reach)];
  return [...start, deadBlocks ? 1 : 0, ...keyed, ...end];
}

/** The columns that a change sets, and their values, in the same order. */
export function changedColumns(row: PacketRow, to: Partial<PacketRow>): [names: string[], values: SqliteValue[]] {
  const after = { ...row, ...to };
  const set: Partial<Columns> = Object.assign({}, ...(Object.keys(to) as (keyof PacketRow)[]).map((member) => columnsOf[member]?.(after)));
  return [Object.keys(set), Object.values(set).map((value) => (typeof value === "string" ? text(value) : value))];
}

export function toPacketRow(found: unknown, { flow, queue }: QueueId): PacketRow {
  const row = found as Columns;
  const { no, state, owner, attempt, since, crashes, execution, hold, lane, place, parts, history, note, payload } = row;
  return {
    no,
    flow,
    queue,
    state: state as PacketRow["state"],
    owner,
    attempt,
    since,
    crashes,
    dueAt: row.due_at,
    execution,
    key: toKey(row),
    lane,
    payload,
    parts: parsed(parts),
    history,
    note: note as PacketRow["note"],
    createdAt: row.created_at,
    dead: row.dead_name === null ? null : { name: row.dead_name, at: row.dead_at ?? 0, expiresAt: row.expires_at },
    hold: hold as PacketRow["hold"],
    place,
    deadBlocks: row.dead_blocks === 1,
    part: parsed(row.part),
    letter: parsed(row.letter),
    reach: reachIn(row.reach),
  };
}

function toKey({ key_scope: scope, key, key_about: about }: Columns): PacketKey | null {
  if (scope === null || key === null || about === null) return null;
  const [fingerprint, retentionMs, onMismatch] = JSON.parse(about) as [string | null, number | null, PacketKey["onMismatch"]];
  return { scope, key, fingerprint, retentionMs, onMismatch };
}

const letterTexts = new WeakMap<object, string>();

/** Encoded once for each `letter` object: all packets of an edge share one. */
function letterText(letter: PacketRow["letter"]): string | null {
  if (letter === null) return null;
  const known = letterTexts.get(letter) ?? JSON.stringify(letter);
  letterTexts.set(letter, known);
  return known;
}

function json(value: object | null): string | null {
  return value === null ? null : JSON.stringify(value);
}

function parsed<T>(value: string | null): T | null {
  return value === null ? null : (JSON.parse(value) as T);
}
